"""Random histories of saves, rollbacks, damage, pins, retention and crashes at any operation.

Whatever happens to it, storage never loses the last checkpoint that was read back, chooses nothing
that a rollback took back, and keeps what is pinned.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from everstep_checkpoint.errors import IncompleteError
from everstep_checkpoint.keeping import Lineage, outdated, read_back
from everstep_checkpoint.retention import Retention
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import Listed, eligible, is_void
from everstep_contract.manifest import Manifest, checkpoint_name
from everstep_contract.record import GenerationStart
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.checkpoints import LINEAGE
from support.dying import dying
from support.jobs import JOB, NOW
from support.places import attempt_of, folder_of, write_shard

BODY = b"0123456789"
RETENTION = Retention(keep_last=2)
LIVES = st.none() | st.integers(0, 25)
"""After how many operations on storage the process that does the step dies; None: it does not."""


def write(storage: Storage, generation: int, step: int) -> Manifest:
    """One shard on storage, and the manifest that would commit it."""
    file = write_shard(attempt_of(storage, generation, step), "0-a.safetensors", [BODY])
    return Manifest(
        job=JOB,
        checkpoint=checkpoint_name(generation, step),
        lineage=LINEAGE,
        generation=generation,
        step=step,
        shards=(file,),
        committed_at=NOW,
    )


def verify(storage: Storage, one: Manifest) -> None:
    """As the indexer reads back."""
    changes: dict[str, Any] = read_back(storage, one, NOW)
    storage.mark(one, **changes)


def prune(storage: Storage, starts: tuple[GenerationStart, ...]) -> None:
    """As the indexer prunes."""
    for going in outdated(storage, Lineage(JOB, LINEAGE, starts), RETENTION):
        storage.delete(going)


class Histories(RuleBasedStateMachine):
    """A job that trains, and the indexer of its checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.storage = Storage(Path(self.home.name))
        self.generation, self.step = 1, 0
        self.starts: tuple[GenerationStart, ...] = (GenerationStart(generation=1, start_step=0),)
        self.told: list[Manifest] = []
        self.pinned: set[str] = set()
        self.harmed: set[str] = set()

    def teardown(self) -> None:
        self.home.cleanup()

    def proven(self) -> set[str]:
        """Names of those that would be restored from and were read back."""
        return {
            one.manifest.checkpoint
            for one in self.storage.listed()[0]
            if one.is_proven
            and self.storage.is_there(one.manifest)
            and not is_void(one.manifest, self.starts)
        }

    def committed(self) -> list[Listed]:
        return self.storage.listed()[0]

    @rule(steps=st.integers(1, 9), life=LIVES)
    def train_and_save(self, steps: int, life: int | None) -> None:
        self.step += steps
        with dying(life):
            self.told.append(write(self.storage, self.generation, self.step))

    @rule(steps=st.integers(1, 9), life=LIVES, prunes=st.booleans())
    def train_save_and_read_back(self, steps: int, life: int | None, prunes: bool) -> None:
        before = self.proven()
        self.step += steps
        self.told.append(write(self.storage, self.generation, self.step))
        history = {"history": self.starts}
        with dying(life):
            self.storage.commit(self.told[-1].model_copy(update=history))
            verify(self.storage, self.told[-1])
            if prunes:
                prune(self.storage, self.starts)
        assert len(self.proven()) >= min(len(before), RETENTION.keep_last)

    @precondition(lambda self: len(self.starts) > 1)
    @rule(ahead=st.integers(1, 9), data=st.data())
    def a_zombie_saves_past_its_successors_start(self, ahead: int, data: st.DataObject) -> None:
        start = data.draw(st.sampled_from(self.starts[1:]))
        self.told.append(write(self.storage, start.generation - 1, start.start_step + ahead))

    @precondition(lambda self: self.told)
    @rule(life=LIVES, data=st.data())
    def commit(self, life: int | None, data: st.DataObject) -> None:
        told = data.draw(st.sampled_from(self.told))
        before = self.proven()
        with dying(life):
            if is_void(told, self.starts):
                return
            try:
                self.storage.commit(told.model_copy(update={"history": self.starts}))
            except IncompleteError:
                return
        assert before <= self.proven()

    @precondition(lambda self: self.committed())
    @rule(life=LIVES, data=st.data())
    def read_one_back(self, life: int | None, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.committed())).manifest
        with dying(life):
            verify(self.storage, one)

    @rule(life=LIVES)
    def prune(self, life: int | None) -> None:
        before = self.proven()
        with dying(life):
            prune(self.storage, self.starts)
        after = self.proven()
        assert len(after) >= min(len(before), RETENTION.keep_last)

    @rule(life=LIVES)
    def collect_all_that_is_left_over(self, life: int | None) -> None:
        before = self.proven()
        with dying(life):
            self.storage.collect(self.storage.leftovers())
        assert self.proven() == before

    @precondition(lambda self: self.committed())
    @rule(pinned=st.booleans(), data=st.data())
    def pin(self, pinned: bool, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.committed())).manifest
        self.storage.mark(one, pinned=pinned)
        (self.pinned.add if pinned else self.pinned.discard)(one.checkpoint)

    @precondition(lambda self: self.committed())
    @rule(cut=st.booleans(), data=st.data())
    def damage(self, cut: bool, data: st.DataObject) -> None:
        newest_first = sorted(self.committed(), key=lambda one: -one.manifest.step)
        one = data.draw(st.sampled_from(newest_first[:3])).manifest
        self.harmed.add(one.checkpoint)
        path = folder_of(self.storage, one) / one.shards[0].file
        if not cut:
            path.unlink(missing_ok=True)
        elif path.exists():
            os.truncate(path, 3)

    @rule(back=st.integers(0, 12))
    def a_generation_ends_and_the_next_one_begins_earlier(self, back: int) -> None:
        self.generation += 1
        self.step = max(0, self.step - back)
        start = GenerationStart(generation=self.generation, start_step=self.step)
        self.starts = (*self.starts, start)

    @invariant()
    def what_was_taken_back_is_never_chosen(self) -> None:
        manifests, _ = self.storage.manifests(JOB)
        for one in eligible(manifests, LINEAGE, self.starts)[:1]:
            later = [s.start_step for s in self.starts if s.generation > one.generation]
            assert one.step <= min(later, default=one.step)

    @invariant()
    def pins_are_kept(self) -> None:
        assert self.pinned <= {one.manifest.checkpoint for one in self.committed()}

    @invariant()
    def nobody_sees_half_of_a_checkpoint(self) -> None:
        for one in self.committed():
            assert one.manifest.checkpoint in self.harmed or self.storage.is_there(one.manifest)

    @invariant()
    def every_folder_tells_what_it_is(self) -> None:
        assert self.storage.listed()[1] == []


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


@pytest.mark.slow
def test_many_long_histories() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    long = settings(max_examples=200, stateful_step_count=60, deadline=None)
    run_state_machine_as_test(Histories, settings=long)
