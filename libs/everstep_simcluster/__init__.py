"""A cluster on one machine: API server, Volcano controllers, and kubelets that run processes."""
