"""From raw task metrics to rolling windows: executors parse and validate, one small merge step closes minutes per job.

``columns``, ``figures``, ``minutes``, ``references`` and ``state`` are pure; ``stages`` maps DataFrames; only ``job`` and what it
calls (``session``, ``publisher``, ``state_store``) do I/O. Never keeps state outside its checkpoint, never decides.
"""
