"""Make streams and buckets from `everstep_contract.layout`, as often as anybody likes."""

from everstep_contract.layout import ALL_STREAMS, Stream
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RePublish, StorageType, StreamConfig
from nats.js.errors import NotFoundError


async def provision(stream: JetStreamContext, replicas: int = 1) -> None:
    """Make each stream that is missing; what a site tuned on an existing one is kept.

    It looks before it makes: nats-server checks a stream's reservation of space before it notices
    that it has this very stream already. ``replicas``: on how many servers each is kept at least.
    """
    for spec in ALL_STREAMS:
        try:
            found = (await stream.stream_info(spec.name)).config
        except NotFoundError:
            await stream.add_stream(stream_config(spec).evolve(num_replicas=replicas))
        else:
            await _adopt(stream, spec, found, replicas)


async def _adopt(
    stream: JetStreamContext, spec: Stream, found: StreamConfig, replicas: int
) -> None:
    """Bring an existing stream to what the protocol needs, and leave its bounds alone."""
    wanted = stream_config(spec)
    needed = found.evolve(
        subjects=wanted.subjects,
        max_msgs_per_subject=wanted.max_msgs_per_subject,
        republish=wanted.republish,
        allow_direct=True,
        num_replicas=max(found.num_replicas or 1, replicas),
    )
    if needed != found:
        await stream.update_stream(needed)


def stream_config(spec: Stream) -> StreamConfig:
    """The configuration of a stream; a bucket's is what every NATS client expects of one."""
    bucket = spec.name.startswith("KV_")
    repeat = RePublish(src=spec.subjects[0], dest=f"{spec.repeated_to}.>")
    return StreamConfig(
        name=spec.name,
        subjects=list(spec.subjects),
        storage=StorageType(spec.storage),
        discard=DiscardPolicy.NEW if bucket else DiscardPolicy.OLD,
        max_age=spec.max_age_seconds,
        max_bytes=spec.max_bytes,
        max_msgs_per_subject=spec.max_messages_per_subject,
        duplicate_window=spec.duplicate_window_seconds,
        republish=repeat if spec.repeated_to else None,
        allow_direct=True,
        allow_rollup_hdrs=bucket,
        deny_delete=bucket,
    )
