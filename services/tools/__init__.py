"""Commands for people: explain, record and replay, evaluate, settings, releases, topics, health, the cluster, reference pages."""
