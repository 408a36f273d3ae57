"""Which order a job's record asks for (R7, R8); a pure function of record and last order."""

from everstep_contract.orders import Order
from everstep_contract.record import JobRecord, OrderState
from everstep_contract.verdicts import RestartWorkers


def next_order(record: JobRecord, last: Order | None) -> Order | None:
    """The order to post after ``last``, or None when the last one stands.

    Only a newer generation is posted. A job made anew under the same name counts its own
    generations, so another uid is newer whatever its number.
    """
    if record.generation == 0:
        return None
    if last is not None and last.job_uid == record.job_uid and last.generation >= record.generation:
        return None
    return order_of(record)


def contradicts(record: JobRecord, last: Order | None) -> bool:
    """Whether the same generation was ordered under another verdict: two adjudicators ruled."""
    return (
        last is not None
        and (last.job_uid, last.generation) == (record.job_uid, record.generation)
        and last.verdict_id != record.verdict_id
    )


def order_of(record: JobRecord) -> Order:
    """The whole desired state of the job under the record's generation."""
    verdict = record.verdict
    return Order(
        job=record.job,
        job_uid=record.job_uid,
        generation=record.generation,
        verdict_id=record.verdict_id,
        state=_state(record),
        seats=record.seats,
        store_host=record.store_host,
        history=record.history,
        start_step=record.start_step,
        durations=record.durations,
        restart=verdict.failed if isinstance(verdict, RestartWorkers) else (),
        reason=record.reason,
    )


def _state(record: JobRecord) -> OrderState:
    return "stop" if record.phase == "ended" else record.state
