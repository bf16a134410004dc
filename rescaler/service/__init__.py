"""The rescaler as a process: sessions, one transaction per round, memory on Kafka. It holds no control logic."""
