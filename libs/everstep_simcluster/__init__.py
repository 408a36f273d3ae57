"""A cluster on one machine: API server, Volcano controllers, nodes and kubelets that run pods as processes."""
