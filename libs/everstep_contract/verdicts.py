"""The closed union of verdicts (DESIGN 6). Whoever acts on one matches all of it."""

from typing import Annotated, Literal

from pydantic import Field

from everstep_contract.base import Model, Text

Incarnations = tuple[str, ...]


class Tolerate(Model):
    """Not confirmed, or the job steps on without harm: nothing is done."""

    kind: Literal["tolerate"] = "tolerate"
    suspected: Incarnations = ()


class Form(Model):
    """Enough members joined: the first generation, or the first after a suspension."""

    kind: Literal["form"] = "form"


class Grow(Model):
    """A replacement is ready: the next generation has it too."""

    kind: Literal["grow"] = "grow"
    added: Incarnations


class RestartWorkers(Model):
    """A worker died or failed on a healthy node: same members, new generation."""

    kind: Literal["restart_workers"] = "restart_workers"
    failed: Incarnations


class Shrink(Model):
    """Survivors are at least ``min_member``: they re-form at once without the lost."""

    kind: Literal["shrink"] = "shrink"
    lost: Incarnations


class Swap(Model):
    """A spare is ready: one generation removes the lost and adds the spare."""

    kind: Literal["swap"] = "swap"
    lost: Incarnations
    added: Incarnations


class AwaitReplacement(Model):
    """Survivors are fewer than ``min_member``: they keep their state and wait."""

    kind: Literal["await_replacement"] = "await_replacement"
    lost: Incarnations
    wait_seconds: float = Field(gt=0)


class Suspend(Model):
    """Stop stepping and keep state: no replacement in time, or an operator asked for it."""

    kind: Literal["suspend"] = "suspend"
    by: Literal["deadline", "operator"] = Field(
        default="deadline", description="An operator's suspension ends by an operator's word only."
    )


class GiveUp(Model):
    """Budget or patience is spent: save, say why, stop."""

    kind: Literal["give_up"] = "give_up"


Verdict = Annotated[
    Tolerate | Form | Grow | RestartWorkers | Shrink | Swap | AwaitReplacement | Suspend | GiveUp,
    Field(discriminator="kind"),
]
VerdictKind = Literal[
    "tolerate",
    "form",
    "grow",
    "restart_workers",
    "shrink",
    "swap",
    "await_replacement",
    "suspend",
    "give_up",
]


EvidenceKind = Literal[
    "connection_closed",
    "connection_stale",
    "not_connected",
    "probe_refused",
    "probe_silent",
    "other_incarnation",
    "worker_exited",
    "collective_failed",
    "no_step",
    "pod_terminated",
    "pod_deleted",
    "node_not_ready",
    "node_rebooted",
    "planned",
    "not_joined",
    "left",
    "fenced",
    "hardware_fault",
]


class Evidence(Model):
    """One thing known about one incarnation, and who says so."""

    kind: EvidenceKind
    incarnation: str
    witness: str = Field(max_length=253)
    detail: Text = ""
