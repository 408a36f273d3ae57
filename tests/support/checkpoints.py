"""Prepared shards of made-up checkpoints."""

from datetime import timedelta
from typing import Any

from everstep_contract.facts.checkpoint import ShardPrepared
from support.jobs import JOB, NOW, member


def shard(index: int, *, step: int = 100, generation: int = 1, **changes: Any) -> ShardPrepared:
    """Shard ``index`` of two, written by member ``index``."""
    fields: dict[str, Any] = {
        "at": NOW + timedelta(seconds=index),
        "job": JOB,
        "member": member(index),
        "checkpoint": f"s{step}",
        "generation": generation,
        "step": step,
        "shard": index,
        "shards": 2,
        "path": f"/ckpt/s{step}/shard-{index}.safetensors",
        "total_bytes": 10,
        "xxh3_128": "0" * 32,
    }
    return ShardPrepared(**{**fields, **changes})
