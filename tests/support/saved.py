"""Attempts on any storage, and the manifests that would commit them."""

from everstep_checkpoint.shards import write_shard
from everstep_checkpoint.storage import Storage
from everstep_contract.manifest import Manifest
from support.jobs import JOB, NOW

BODY = b"0123456789" * 1000
LINEAGE = "uid-1"


def prepared(storage: Storage, step: int = 7, *, writer: str = "a") -> Manifest:
    """An attempt of two shards, and the manifest that would commit it."""
    attempt = storage.attempt(JOB, LINEAGE, 1, step)
    names = [f"{rank}-{writer}.safetensors" for rank in (0, 1)]
    shards = [write_shard(storage.medium, attempt / name, [BODY, BODY]) for name in names]
    return Manifest(
        job=JOB,
        checkpoint=f"g1-s{step}",
        lineage=LINEAGE,
        generation=1,
        step=step,
        shards=tuple(shards),
        committed_at=NOW,
    )
