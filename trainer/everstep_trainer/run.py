"""`everstep run`: be a member's agent. Torchrun's flags: `everstep run --nnodes 6:8 train.py`."""

import os
import sys

from everstep_trainer.agent.flags import UsageError, parse
from everstep_trainer.agent.zygote import start_zygote

EXIT_USAGE = 2


def main(argv: list[str]) -> int:
    """Run one member of a training job, its agent and its workers; takes torchrun's flags.

    Returns, when the job or this member of it ends, the process's exit status.
    The zygote is forked before anything that could start a thread is imported.
    """
    try:
        command = parse(argv, os.environ)
    except UsageError as error:
        sys.stderr.write(f"everstep run: {error}\n")
        return EXIT_USAGE
    for warning in command.warnings:
        sys.stderr.write(f"everstep run: warning: {warning}\n")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun: workers share the machine
    zygote = start_zygote(command.program)
    from everstep_trainer.agent.launch import launch  # asyncio and the bus: not in the zygote

    return launch(command, zygote, os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
