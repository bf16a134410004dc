"""``surescale policy`` and the releases it writes: which policy a cluster's agents use from which event minute on."""
