"""Reads the settings and hands over to the runtime."""

import os
import sys

from everstep_bus.interface import Bus
from everstep_checkpoint.storage import Storage
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from everstep_runtime.service import run_service

from everstep_checkpoint_indexer.config import Settings
from everstep_checkpoint_indexer.model import House
from everstep_checkpoint_indexer.service import serve


def main() -> int:
    """Run the checkpoint indexer; the process's exit status."""
    settings = Settings.from_env(os.environ)

    async def start(bus: Bus, readiness: Readiness) -> None:
        storage = Storage(settings.checkpoint_root)
        house = House(bus, storage, settings.policy(), SystemClock())
        await serve(house, readiness, instance=settings.instance)

    return run_service("checkpoint_indexer", start, settings)


if __name__ == "__main__":
    sys.exit(main())
