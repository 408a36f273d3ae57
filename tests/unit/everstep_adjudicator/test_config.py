"""Every knob is validated, and the waits stand in their order (EC-47)."""

import pytest
from everstep_adjudicator.config import Settings
from everstep_adjudicator.policy import Policy
from everstep_runtime.errors import SettingsError


def test_without_variables_the_policy_is_the_documented_one() -> None:
    assert Settings.parse({}).policy() == Policy()


def test_a_variable_changes_its_threshold_and_no_other() -> None:
    settings = Settings.parse({"EVERSTEP_HOLD_SECONDS": "60"})
    assert settings.policy() == Policy(hold_seconds=60)


def test_a_misspelt_variable_is_named_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="did you mean EVERSTEP_HOLD_SECONDS"):
        Settings.parse({"EVERSTEP_HOLD_SECOND": "60"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("EVERSTEP_COLLECTIVE_SETTLE_SECONDS", "0.5"),
        ("EVERSTEP_FORM_SECONDS", "1.5"),
        ("EVERSTEP_FIRST_STEP_SECONDS", "10"),
        ("EVERSTEP_CONSTRUCT_SECONDS", "20"),
    ],
)
def test_ec47_waits_in_the_wrong_order_stop_the_start(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match="must exceed"):
        Settings.parse({variable: value})
