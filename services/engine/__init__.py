"""The simulated engine as a process: an HTTP interface around ``simulation.engine``, and the road's clock."""
