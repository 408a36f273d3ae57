"""R26: which checkpoints are good."""

from typing import Any

from everstep_checkpoint.validity import Listed, eligible, is_void, standings
from everstep_contract.manifest import Manifest, Marks
from everstep_contract.record import GenerationStart
from support.checkpoints import LINEAGE, save


def names(manifests: tuple[Manifest, ...]) -> list[str]:
    return [manifest.checkpoint for manifest in manifests]


def test_r26_a_save_past_its_successors_start_is_void() -> None:
    starts = [GenerationStart(generation=2, start_step=100)]
    assert is_void(save(1, 101), starts)
    assert not is_void(save(1, 100), starts)
    assert not is_void(save(2, 150), starts)


def test_r26_the_breakpoint_save_of_a_broken_generation_is_good() -> None:
    starts = [GenerationStart(generation=g, start_step=s) for g, s in ((1, 0), (2, 100), (3, 180))]
    assert is_void(save(1, 150), starts)
    assert not is_void(save(1, 150), [*starts[:1], GenerationStart(generation=2, start_step=150)])
    assert not is_void(save(2, 150), starts)


def test_r26_an_abandoned_future_stays_abandoned_when_only_manifests_are_left() -> None:
    known = [save(1, 100), save(1, 150), save(2, 120, (1, 0), (2, 100))]
    assert names(eligible(known, LINEAGE)) == ["g2-s120", "g1-s100"]


def test_another_lineage_of_the_same_name_is_never_chosen() -> None:
    assert names(eligible([save(9, 900, lineage="uid-0"), save(1, 10)], LINEAGE)) == ["g1-s10"]


def listed(manifest: Manifest, **marks: Any) -> Listed:
    return Listed(manifest, Marks(**marks))


def test_ec28_steps_are_ordered_as_numbers_and_the_damaged_come_after_the_good() -> None:
    own = [
        listed(save(1, 9_900)),
        listed(save(1, 10_000)),
        listed(save(1, 10_100), damage="its hash is another"),
        listed(save(1, 800)),
    ]
    assert [(one.manifest.step, word) for one, word in standings(own)] == [
        (10_000, "newest"),
        (9_900, "good"),
        (800, "good"),
        (10_100, "damaged"),
    ]


def test_r26_what_a_rollback_took_back_is_void_whatever_else_is_known_of_it() -> None:
    own = [listed(save(1, 100)), listed(save(1, 150), damage="cut short")]
    ranked = standings(own, [GenerationStart(generation=2, start_step=120)])
    assert [(one.manifest.step, word) for one, word in ranked] == [(100, "newest"), (150, "void")]
