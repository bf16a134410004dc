"""From raw task metrics to rolling windows: each task of Spark parses and merges the Kafka partition that it reads.

``columns``, ``figures``, ``minutes``, ``references`` and ``state`` are pure. ``merging`` is the work of a task, with ``stages``,
``publisher`` and ``state_files``; ``streaming_job`` is that of the driver, with ``session``, ``beginning`` and ``manifest``.
Never keeps state outside its checkpoint, never decides.
"""
