"""What to do with a window: encoder, learned policy, rules, guardrails, explanations. Knows no Kafka, no torch, no clock."""
