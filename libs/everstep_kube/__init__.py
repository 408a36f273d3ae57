"""Kubernetes and Volcano as they really behave; the only importer of kubernetes."""
