"""Recorded timelines, read into what was done and what the cluster looked like before it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.conformance.api import Json

COUNTS = ("pending", "running", "succeeded", "failed", "terminating")

REST_SECONDS = 0.5
"""A recording that tells nothing for so long has come to rest."""

BURST_SECONDS = 0.2
"""A request is written down after what it brought about; its rest ended no longer ago."""


@dataclass(frozen=True)
class Deed:
    """One request of a recording: the words after ``>>``, what it is about and how."""

    words: str
    about: str
    option: Any
    job_phase: str
    pod_there: str
    """Which pod lay on the node, where it is about a node."""


@dataclass
class Look:
    """A cluster at rest, as far as it is the same every time."""

    phase: str = ""
    counts: Json = field(default_factory=dict)
    retries: int = 0
    pods: dict[str, str] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True)
class Rest:
    """How it came to rest: the job's phases since the rest before, and which pods are others."""

    look: Look
    uids: dict[str, str]
    phases: tuple[str, ...]
    conditions: frozenset[str]


@dataclass(frozen=True)
class Step:
    """Something that was done, and the rest before it unless it followed at once."""

    rest: Rest | None
    deed: Deed | None


def section(path: Path, *letters: str) -> list[Step]:
    """What was done in the parts of a timeline whose titles begin with these letters."""
    reader = _Reader()
    steps: list[Step] = []
    inside = False
    for line in _lines(path):
        reader.pass_time(line[0])
        what, about = line[1], line[2]
        if what == "##":
            inside, was_inside = about.partition(":")[0] in letters, inside
            if was_inside and not inside:
                break
        elif what.startswith(">>"):
            step = reader.step(what.removeprefix(">>").strip(), about, line[3:])
            if inside:
                steps.append(step)
        else:
            reader.hear(what, about, line[3], line[4])
    end = reader.at_rest()
    return [*steps, Step(end, None)] if end.look.pods else steps


class _Reader:
    """What the lines told so far."""

    def __init__(self) -> None:
        self._job: Json = {}
        self._pods: dict[str, Json] = {}
        self._group: Json = {}
        self._phases: list[str] = []
        self._heard_at = 0.0
        self._rest: Rest | None = None
        self._rest_ended_at = 0.0

    def pass_time(self, now: float) -> None:
        """A line of that instant is about to be read."""
        if now - self._heard_at >= REST_SECONDS and self._job:
            self._rest, self._rest_ended_at = self.at_rest(), now
        self._heard_at = now

    def _take_rest(self) -> Rest | None:
        """The rest that the deed of this instant ended, once."""
        rest, self._rest = self._rest, None
        if rest is None or self._heard_at - self._rest_ended_at > BURST_SECONDS:
            return None
        self._phases = self._phases[len(rest.phases) - 1 :]
        return rest

    def step(self, words: str, about: Any, more: list[Any]) -> Step:
        there = {pod["node"]: name for name, pod in self._pods.items() if pod["node"]}
        about = about if isinstance(about, str) else ""
        phase = self._job.get("phase") or ""
        deed = Deed(words, about, more[0] if more else None, phase, there.get(about, ""))
        return Step(self._take_rest(), deed)

    def hear(self, what: str, kind: str, name: str, digest: Json) -> None:
        gone = kind == "DELETED"
        if what == "job":
            self._job = {} if gone else digest
            phase = self._job.get("phase")
            if gone:
                self._phases = []
            elif phase and self._phases[-1:] != [phase]:
                self._phases.append(phase)
        elif what == "pod" and gone:
            self._pods.pop(name, None)
        elif what == "pod":
            self._pods[name] = digest
        elif what == "pg":
            self._group = {} if gone else digest

    def at_rest(self) -> Rest:
        """How things are now."""
        phase = self._job.get("phase") or ""
        group = self._group.get("phase") or ""
        if (phase, group) == ("Running", "Inqueue"):
            group = "Running"  # at the scheduler's next round
        look = Look(
            phase=phase,
            counts={word: self._job[word] for word in COUNTS if self._job.get(word)},
            retries=self._job.get("retryCount") or 0,
            pods={name: _phase(pod) for name, pod in self._pods.items()},
            group=group,
        )
        uids = {name: pod["uid"] for name, pod in self._pods.items()}
        conditions = frozenset(one[0] for one in self._group.get("cond") or ())
        return Rest(look, uids, tuple(self._phases), conditions)


def _phase(pod: Json) -> str:
    return "Terminating" if pod["del"] else str(pod["phase"])


def _lines(path: Path) -> Iterator[Any]:
    for text in path.read_text().splitlines()[1:]:
        line = json.loads(text)
        if line[1] != "event":
            yield line
