"""From raw task metrics to rolling windows: executors parse and validate, one small merge step closes minutes per job.

``columns``, ``figures``, ``minutes``, ``references`` and ``state`` are pure; ``stages`` maps DataFrames; ``streaming_job``, with
what it calls (``session``, ``publisher``, ``beginning``, ``state_store`` and its ``places``), does I/O. Never keeps state outside
its checkpoint, never decides.
"""
