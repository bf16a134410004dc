"""Releases: which policy a cluster's agents use from which event minute on, and ``surescale policy`` that writes them."""
