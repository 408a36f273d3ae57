"""Publish, consume and key-value on NATS JetStream, and an in-memory twin nastier than NATS."""
