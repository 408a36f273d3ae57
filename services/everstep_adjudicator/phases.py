"""How a generation goes on: decided, formed, resumed, ended (R4, R6)."""

from everstep_contract.record import MAX_HISTORY, GenerationStart, JobRecord

from everstep_adjudicator.actions import Advance, Decision
from everstep_adjudicator.case import Case


def end_with_the_job(case: Case) -> Decision | None:
    """All members finished, or the job was deleted: nothing is left to decide."""
    view, record = case.view, case.view.record
    if record is None or record.phase == "ended":
        return None
    if record.job_uid in view.deleted_uids:
        return _advance(record, {"phase": "ended"}, "the job was deleted")
    finished = [
        incarnation
        for incarnation in record.incarnations
        if incarnation in view.left and view.left[incarnation].reason == "finished"
    ]
    gone = {*finished, *(judgement.incarnation for judgement in case.condemned)}
    if finished and gone >= set(record.incarnations):
        reason = f"{len(finished)} members finished"
        return _advance(record, {"phase": "ended"}, reason)
    return None


def advance_phases(case: Case) -> Decision | None:
    """Every member is in the group; or a step was completed, which proves the same."""
    record = case.running
    if record is None or record.phase == "resumed":
        return None
    if "first_new_step" in case.view.stamps:
        update = {**_formed(case, record), "phase": "resumed"}
        update |= {"resumed_generation": record.generation, "unspent_generations": 0}
        return _advance(record, update, f"generation {record.generation} completed a step")
    formed = all(case.formed(incarnation) for incarnation in record.incarnations)
    if record.phase == "decided" and formed:
        update = {**_formed(case, record), "phase": "formed"}
        return _advance(record, update, f"generation {record.generation} formed")
    return None


def _formed(case: Case, record: JobRecord) -> dict[str, object]:
    update: dict[str, object] = {
        "formed_generation": record.generation,
        "formed_by": record.incarnations,
    }
    agreed = max((formed.agreed_step for formed in case.view.formed.values()), default=None)
    if agreed is not None and record.start_step is None:
        start = GenerationStart(generation=record.generation, start_step=agreed)
        update["start_step"] = agreed
        update["history"] = (*record.history, start)[-MAX_HISTORY:]
    return update


def _advance(record: JobRecord, update: dict[str, object], reason: str) -> Decision:
    return Decision(Advance(record.model_copy(update=update)), reason)
