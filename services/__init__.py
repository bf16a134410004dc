"""The processes around the policy: agent, state projector, simulated engine, local stack, and the command line."""
