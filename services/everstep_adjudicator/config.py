"""Settings of the adjudicator, from EVERSTEP_* variables."""

from itertools import pairwise
from typing import Final, Self

from everstep_runtime.settings import ServiceSettings
from pydantic import Field, model_validator

from everstep_adjudicator.policy import Policy

STALENESS_SECONDS: Final = 0.73
"""Measured with pings every 200 ms, at most 2 outstanding: when silence is noticed."""
DEFAULT: Final = Policy()


class Settings(ServiceSettings):
    """What an operator may choose; everything else in `Policy` follows from measurements."""

    form_settle_seconds: float = Field(default=DEFAULT.form_settle_seconds, ge=0, le=3600)
    form_seconds: float = Field(default=DEFAULT.form_seconds, gt=0, le=3600)
    construct_seconds: float = Field(default=DEFAULT.construct_seconds, gt=0, le=600)
    hold_seconds: float = Field(default=DEFAULT.hold_seconds, gt=0, le=7 * 24 * 3600)
    self_fence_seconds: float = Field(default=DEFAULT.self_fence_seconds, gt=0, le=3600)
    first_step_seconds: float = Field(default=DEFAULT.first_step_seconds, gt=0, le=24 * 3600)
    collective_settle_seconds: float = Field(default=DEFAULT.collective_settle_seconds, gt=0, le=60)
    grow_quiet_seconds: float = Field(default=DEFAULT.grow_quiet_seconds, ge=0, le=3600)
    grow_interval_seconds: float = Field(default=DEFAULT.grow_interval_seconds, ge=0, le=3600)
    readmit_seconds: float = Field(default=DEFAULT.readmit_seconds, ge=0, le=3600)
    restart_budget: int = Field(default=DEFAULT.restart_budget, ge=1, le=10_000)
    no_progress_limit: int = Field(default=DEFAULT.no_progress_limit, ge=1, le=10_000)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        """Each wait outlasts the one whose answer it needs (EC-47)."""
        waits = {
            "the pings' staleness": STALENESS_SECONDS,
            "collective_settle_seconds": self.collective_settle_seconds,
            "form_seconds": self.form_seconds,
            "first_step_seconds": self.first_step_seconds,
        }
        for shorter, longer in pairwise(waits):
            if waits[shorter] >= waits[longer]:
                raise ValueError(
                    f"{longer} must exceed {shorter}: {waits[longer]:g} <= {waits[shorter]:g}"
                )
        if self.construct_seconds >= self.form_seconds:
            raise ValueError("form_seconds must exceed construct_seconds")
        return self

    def policy(self) -> Policy:
        """The thresholds with what the operator chose."""
        chosen = self.model_dump(include=set(Policy.__dataclass_fields__))
        return Policy(**chosen)
