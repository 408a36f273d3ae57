"""All rules there are, and that the documents know them."""

from pathlib import Path

import pytest
from everstep_preflight.catalogue import RULES
from everstep_preflight.model import Rule

DOCUMENT = (Path(__file__).parents[3] / "docs" / "preflight.md").read_text()


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_every_rule_stands_in_the_documents_as_it_is(rule: Rule) -> None:
    row = f"| `{rule.id}` | {rule.severity} | {rule.summary} | {rule.why} | {rule.source} |"
    assert row.replace("<", "&lt;").replace(">", "&gt;") in DOCUMENT.splitlines()


def test_the_documents_know_no_rule_that_is_gone() -> None:
    listed = [line.split("`")[1] for line in DOCUMENT.splitlines() if line.startswith("| `")]
    assert listed == list(RULES)
