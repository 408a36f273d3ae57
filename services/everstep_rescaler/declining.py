"""Where the rescaler has no cluster: a wish for another size is refused, with what to do."""

import structlog
from everstep_bus.errors import BusError
from everstep_bus.interface import Bus
from everstep_contract.facts.job import RescaleAnswered
from everstep_contract.layout import JOBS
from everstep_contract.record import JobRecord
from everstep_runtime.clock import Clock

log = structlog.get_logger()


async def decline(bus: Bus, clock: Clock) -> None:
    """Refuse every wish as it comes, until cancelled; one that is not heard ends by itself."""
    async for entry in bus.kv(JOBS).watch():
        answer = refusal(entry.value, clock) if entry.value else None
        if answer is None:
            continue
        try:
            await bus.publish(answer)
        except BusError as error:
            log.warning("rescale not refused", job=entry.key, error=str(error))


def refusal(record: JobRecord, clock: Clock) -> RescaleAnswered | None:
    """The answer to an open wish; None where there is none."""
    wish = record.rescale
    if wish is None or not wish.is_open:
        return None
    by_hand = wish.size.by_hand(record.job.namespace, record.job.name)
    return RescaleAnswered(
        at=clock.now(),
        job=record.job,
        job_uid=record.job_uid,
        wish=wish.id,
        answer="refused",
        detail=f"the rescaler has no cluster; where the job is a Volcano Job, by hand: {by_hand}",
    )
