"""Publish, consume and key-value on NATS JetStream, and an in-memory twin that is nastier than NATS."""
