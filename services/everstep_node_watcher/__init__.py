"""DETECT: turns silence, advisories and the cluster's word into suspicions, never into verdicts."""
