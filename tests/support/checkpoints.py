"""Prepared shards and manifests of made-up checkpoints."""

from datetime import timedelta
from typing import Any

from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.manifest import Manifest, ShardFile, checkpoint_name
from everstep_contract.record import GenerationStart
from support.jobs import JOB, NOW, member

LINEAGE = "uid-1"


def shard(index: int, *, step: int = 100, generation: int = 1, **changes: Any) -> ShardPrepared:
    """Shard ``index`` of two, written by member ``index``."""
    fields: dict[str, Any] = {
        "at": NOW + timedelta(seconds=index),
        "job": JOB,
        "member": member(index),
        "checkpoint": checkpoint_name(generation, step),
        "generation": generation,
        "step": step,
        "shard": index,
        "shards": 2,
        "path": f"/ckpt/s{step}/shard-{index}.safetensors",
        "total_bytes": 10,
        "xxh3_128": "0" * 32,
    }
    return ShardPrepared(**{**fields, **changes})


def save(generation: int, step: int, *starts: tuple[int, int], lineage: str = LINEAGE) -> Manifest:
    """A manifest of one small shard that knows of these generations and their first steps."""
    return Manifest(
        job=JOB,
        checkpoint=checkpoint_name(generation, step),
        lineage=lineage,
        generation=generation,
        step=step,
        shards=(ShardFile(file="0-a.safetensors", total_bytes=10, xxh3_128="0" * 32),),
        history=tuple(GenerationStart(generation=g, start_step=s) for g, s in starts),
        committed_at=NOW,
    )
