"""Reads the settings and hands over to the runtime."""

import os
import sys

from everstep_bus.interface import Bus
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from everstep_runtime.service import run_service

from everstep_adjudicator.config import Settings
from everstep_adjudicator.service import serve


def main() -> int:
    """Run the adjudicator; the process's exit status."""
    settings = Settings.from_env(os.environ)

    async def start(bus: Bus, readiness: Readiness) -> None:
        await serve(bus, settings.policy(), SystemClock(), readiness, instance=settings.instance)

    return run_service("adjudicator", start, settings)


if __name__ == "__main__":
    sys.exit(main())
