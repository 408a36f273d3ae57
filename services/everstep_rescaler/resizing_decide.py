"""What is due in the cluster for a wish of another size: pure, asked again before each change.

Volcano removes the pods of the highest indices. So the Job is made smaller only when the record
seats nobody on those, and the generation that leaves them out goes on (EC-09).
"""

from dataclasses import dataclass
from typing import Literal

from everstep_contract.record import JobRecord
from everstep_contract.rescaling import JobSize, Rescale
from everstep_kube.resizing import SizedJob


@dataclass(frozen=True)
class Answer:
    """Say this of the wish."""

    answer: Literal["possible", "done", "refused"]
    size: JobSize | None
    detail: str = ""


@dataclass(frozen=True)
class Resize:
    """Give the Job the size that is wished for."""

    size: JobSize


Due = Answer | Resize


def decide_resizing(record: JobRecord, job: SizedJob | None, *, act: bool) -> Due | None:
    """What to do now about the record's wish, if it has one that is open."""
    wish = record.rescale
    if wish is None or not wish.is_open or record.phase == "ended":
        return None
    if job is None or job.uid != record.job_uid:
        return Answer("refused", None, "there is no such Job any more")
    if job.size == wish.size:
        return Answer("done", job.size)
    if job.size is None:
        return Answer("refused", None, "the Job has several tasks; only one can be rescaled")
    if wish.stage == "asked":
        return _first_answer(record, wish, job.size, act=act)
    if job.size != wish.size_before:
        return Answer("refused", job.size, f"somebody else changed the Job: it has {job.size}")
    shrinks = wish.size.replicas < job.size.replicas
    return Resize(wish.size) if not shrinks or _goes_on_without(record, wish.size) else None


def _first_answer(record: JobRecord, wish: Rescale, size: JobSize, *, act: bool) -> Answer:
    if act:
        return Answer("possible", size)
    by_hand = wish.size.by_hand(record.job.namespace, record.job.name)
    return Answer("refused", size, f"the rescaler only observes; by hand: {by_hand}")


def _goes_on_without(record: JobRecord, size: JobSize) -> bool:
    """Whether nobody is seated whose pod would go, and that generation formed, or holds."""
    indices = [seat.member.index for seat in record.seats]
    if any(index is None or index >= size.replicas for index in indices):
        return False
    formed = record.formed_generation >= record.generation
    return formed or record.phase in ("formed", "resumed", "holding")
