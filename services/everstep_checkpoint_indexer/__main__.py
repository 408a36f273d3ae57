"""Reads the settings and hands over to the runtime."""

import os
import sys

from everstep_runtime.service import run_service
from everstep_runtime.settings import ServiceSettings

from everstep_checkpoint_indexer.service import serve


def main() -> int:
    """Run the checkpoint indexer; the process's exit status."""
    return run_service("checkpoint_indexer", serve, ServiceSettings.from_env(os.environ))


if __name__ == "__main__":
    sys.exit(main())
