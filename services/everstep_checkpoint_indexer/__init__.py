"""REMEMBER: which checkpoints of a job are committed, and which is the latest."""
