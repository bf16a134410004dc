"""Consumer groups of Kafka as a source: a job is a chain of groups, a task is a group, a subtask is a member."""
