"""Partition policies."""

from support.preflight import GOOD_JOB, fixed_text, rules


def partitioned(total: int, size: int, least: int | None = None, text: str = GOOD_JOB) -> str:
    policy = f"totalPartitions: {total}, partitionSize: {size}"
    policy += f", minPartitions: {least}" if least is not None else ""
    return text.replace("    template:", f"    partitionPolicy: {{{policy}}}\n    template:")


def test_partitions_that_add_up_to_the_gang_and_its_floor_are_no_mistake() -> None:
    assert rules(partitioned(4, 2, 3)) == []


def test_partitions_that_do_not_add_up_are_found() -> None:
    assert rules(partitioned(3, 2, 3)) == ["partition-sizes"]


def test_a_floor_of_half_a_partition_is_found() -> None:
    assert rules(partitioned(2, 4, 1)) == ["partition-floor"]


def test_a_floor_that_only_partitions_name_is_written_down() -> None:
    text = partitioned(4, 2, 3)
    without = text.replace("    minAvailable: 6\n", "")
    assert "partition-floor" in rules(without)
    assert fixed_text(without) == text


def test_partitions_without_any_floor_are_found() -> None:
    bare = GOOD_JOB.replace("    minAvailable: 6\n", "").replace("  minAvailable: 6\n", "")
    assert "partition-floor" in rules(partitioned(4, 2, text=bare))
