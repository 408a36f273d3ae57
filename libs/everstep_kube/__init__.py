"""Kubernetes and Volcano as they really behave: watch, translate, patch; the only importer of kubernetes."""
