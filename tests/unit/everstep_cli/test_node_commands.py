"""What is refused of a command about nodes before anybody is asked."""

import pytest
import typer
from everstep_cli.app import build
from everstep_cli.node_commands import LONGEST_DRAIN_SECONDS
from everstep_contract.node_queries import MAX_DRAIN_SECONDS


@pytest.mark.parametrize("node", ["", "n" * 254, "n\udcff"])
def test_a_name_that_no_message_can_carry_is_named(node: str) -> None:
    with pytest.raises(typer.TyperException, match="invalid name"):
        build("quarantine")(
            args=["quarantine", node, "--reason", "x"], prog_name="e", standalone_mode=False
        )


def test_a_drain_may_be_as_long_as_its_message_allows() -> None:
    assert LONGEST_DRAIN_SECONDS == MAX_DRAIN_SECONDS
