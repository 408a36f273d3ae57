"""Reads the settings and hands over to the runtime."""

import os
import sys

from everstep_bus.interface import Bus
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from everstep_runtime.service import run_service
from everstep_runtime.settings import ServiceSettings

from everstep_rescaler.service import serve


def main() -> int:
    """Run the rescaler; the process's exit status."""
    settings = ServiceSettings.from_env(os.environ)

    async def start(bus: Bus, readiness: Readiness) -> None:
        await serve(bus, SystemClock(), readiness)

    return run_service("rescaler", start, settings)


if __name__ == "__main__":
    sys.exit(main())
