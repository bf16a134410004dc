"""One contract suite for every implementation of a port."""
