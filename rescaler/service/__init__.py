"""The rescaler as a process: transactional loop, views, memory on Kafka. Holds no control logic."""
