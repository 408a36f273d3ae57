"""Values of the wrong kind, whatever and wherever they are."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from everstep_preflight.catalogue import RULES
from support.preflight import GOOD_JOB, fixed, fixed_text, found, pod_group, rules

ODD: tuple[Any, ...] = ("text", 7, None, [], {}, [None], [[1]], {"x": None})


def paths(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place of a document."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, below in children:
        yield (*above, key)
        yield from paths(below, (*above, key))


JOB = yaml.safe_load(GOOD_JOB)


@pytest.mark.parametrize("path", list(paths(JOB)), ids=lambda path: ".".join(map(str, path)))
def test_anything_may_stand_anywhere(path: tuple[str | int, ...]) -> None:
    for odd in ODD:
        job = yaml.safe_load(GOOD_JOB)
        place = job
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = odd
        text = yaml.safe_dump(job)
        once = fixed_text(text)
        assert fixed_text(once) == once
        assert {finding.rule.id for finding in found(once, pod_group("llama-pg"))} <= set(RULES)


def test_a_number_in_quotes_becomes_one() -> None:
    text = GOOD_JOB.replace("replicas: 8", 'replicas: "8"')
    assert "wrong-type" in rules(text)
    assert fixed_text(text) == GOOD_JOB


def test_a_bare_number_where_a_string_belongs_is_quoted() -> None:
    env = "          env:\n          - {name: STEPS, value: 100}\n          envFrom:"
    text = GOOD_JOB.replace("          envFrom:", env)
    assert rules(text) == ["wrong-type"]
    assert "value: '100'" in fixed_text(text)


def test_a_string_where_a_list_belongs_needs_a_person() -> None:
    text = GOOD_JOB.replace("    template:", "    policies: none\n    template:")
    (finding,) = fixed(text).left
    assert finding.message == "a string stands here, where a list belongs"


def test_a_field_that_goes_before_a_merged_one_is_there_once() -> None:
    text = GOOD_JOB.replace("      spec:\n", "      spec: &pod\n")
    second = "  - name: b\n    replicas: 8\n    minAvailable: 6\n    template:\n      spec:\n"
    second += "        <<: *pod\n        restartPolicy: OnFailure\n"
    assert rules(text + second) == ["restart-policy"]
    assert "key-twice" not in rules(fixed_text(text + second))


def test_a_field_that_is_there_twice_is_found_where_it_is_the_second_time() -> None:
    text = GOOD_JOB.replace("    replicas: 8\n", "    replicas: 4\n    replicas: 8\n")
    (finding,) = found(text)
    assert finding.rule.id == "key-twice"
    assert text.splitlines()[finding.line - 1] == "    replicas: 8"
