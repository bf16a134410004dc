"""Consumer groups of Kafka as jobs: which groups form a job, what the broker tells of a group, what a member tells of itself."""
