"""surescale and a real Kubernetes control plane: etcd, API server, controllers and scheduler, built by `make kubernetes-test`."""
