"""What became of a job whose parts were killed, by its scripts' notes and by the files on storage.

The scripts are `counting_script`: every number of their state is the step that it is at.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from everstep_checkpoint.storage import MANIFEST, Storage
from everstep_contract.facts.member import MemberFormed
from everstep_contract.manifest import Manifest
from safetensors import safe_open


class Version(NamedTuple):
    """Of a state; the later generation's is the newer."""

    generation: int
    step: int


@dataclass
class Generations:
    """What the scripts of all workers that ever lived have noted, by generation."""

    folder: Path
    begun: dict[int, set[tuple[int, float, float]]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    left_out: set[int] = field(default_factory=set)
    _read: Counter[Path] = field(default_factory=Counter)

    def look(self) -> None:
        """Take in what was noted since the last look."""
        for notes in self.folder.glob("counts-*"):
            with notes.open("rb") as file:
                file.seek(self._read[notes])
                new = file.read()
            self._read[notes] += len(new)  # lines are written whole
            for line in new.decode().splitlines():
                self._take(*line.split())

    def _take(self, word: str, generation: str, step: str, *extremes: str) -> None:
        number, at = int(generation), int(step)
        if word == "begun":
            least, most = map(float, extremes)
            self.begun.setdefault(number, set()).add((at, least, most))
        elif word == "done":
            self.done[number] = max(at, self.done.get(number, 0))
        else:
            self.left_out.add(at)

    def start(self, generation: int) -> int:
        """Where a generation began; all its workers at the same step, and all numbers were it."""
        steps = {step for step, _, _ in self.begun[generation]}
        numbers = {number for _, *extremes in self.begun[generation] for number in extremes}
        assert numbers == steps, f"generation {generation} began at {steps}: {numbers}"
        (step,) = steps
        return step

    def reached_before(self, generation: int) -> Version:
        """The newest state that any worker held before a generation."""
        former = max((one for one in self.begun if one < generation), default=0)
        if not former:
            return Version(0, 0)
        return Version(former, max(self.start(former), self.done.get(former, 0)))

    def reached(self) -> Version:
        """The newest state that any worker holds or held."""
        return self.reached_before(1 + max(self.begun, default=0))

    def newest_snapshot(self, reached: Version, every: int) -> int:
        """The step of the one that all members have of this generation, or 0 if they have none.

        It is taken before the step after its own.
        """
        step = max(reached.step - 1, 0)
        step -= step % every
        while step in self.left_out:
            step -= every
        return step if reached.step and step > self.start(reached.generation) else 0


def judge_files(storage: Storage, folder: Path) -> Version | None:
    """That a committed checkpoint is whole, by stock safetensors; None if it was deleted by now."""
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        for shard in manifest.shards:
            judge_shard(folder / shard.file, manifest.step)
        storage.verify(manifest)
    except Exception:
        if not folder.exists():
            return None
        raise
    assert {shard.kind for shard in manifest.shards} >= {"state"}
    return Version(manifest.generation, manifest.step)


def judge_shard(path: Path, step: int) -> None:
    """Every number in it is the step."""
    with safe_open(path, framework="np") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            tensor = file.get_tensor(name)
            assert tensor.min() == tensor.max() == step, f"{path}: {name} is not {step}"
        if path.name.startswith("state"):
            assert len(file.keys()) == 4, f"{path} has only {file.keys()}"
            text = json.dumps(json.loads(file.metadata()["everstep"]))
            assert f'["steps", {step}]' in text, f"{path}: the script's own count is not {step}"


def newest_eligible(committed: Iterable[Version], noted: Generations) -> Version:
    """The newest checkpoint that no later generation went back behind, by the scripts' notes."""
    good = [
        one
        for one in committed
        if all(later <= one.generation or noted.start(later) >= one.step for later in noted.begun)
    ]
    return max(good, default=Version(0, 0))


def require_agreement(formed: list[MemberFormed], noted: Generations) -> None:
    """What members told of where they went on from is what their scripts found."""
    for told in formed:
        if told.generation in noted.begun:
            assert noted.start(told.generation) == told.agreed_step, told
