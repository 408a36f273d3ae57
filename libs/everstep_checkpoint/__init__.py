"""Checkpoints as files: the bytes of a shard, folders that are committed, which one is good.

Knows neither torch nor the bus, so that what writes shards, what commits them and what looks at
them afterwards agree on one piece of code.
"""
