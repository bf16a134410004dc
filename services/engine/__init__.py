"""The simulated engine as a process: an HTTP API around ``simulation.engine.cluster``, and the pipeline's clock."""
