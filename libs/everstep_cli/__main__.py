"""The command `everstep`: its own sub-commands, and those that other packages contribute."""

import os
import sys
from pathlib import Path

from everstep_cli.contributed import contributed


def main() -> int:
    """Run the command line; every mistake ends in one line on stderr, never in a traceback.

    A contributed command is handed over to before anything else is imported: the trainer's forks.
    """
    _fill_standard_streams()
    try:
        found = contributed(sys.argv[1:])
        if found is None:
            return _own_command()
        command, arguments = found
        return command(arguments)
    except KeyboardInterrupt:
        return _complain("interrupted", 1)


def _fill_standard_streams() -> None:
    """Where the caller closed one: else a socket gets its number, and Python has no such stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # until the exit


def _own_command() -> int:
    import typer
    from everstep_contract.errors import EverstepError

    from everstep_cli.app import build
    from everstep_cli.errors import CommandError

    try:
        arguments = sys.argv[1:] or ["--help"]
        status = build(arguments[0])(args=arguments, prog_name="everstep", standalone_mode=False)
    except typer.TyperException as misuse:
        return _complain(misuse.format_message().replace("Value error, ", ""), misuse.exit_code)
    except typer.Abort:
        return _complain("interrupted", CommandError.exit_status)
    except CommandError as error:
        return _complain(str(error), error.exit_status)
    except EverstepError as error:
        return _complain(str(error), CommandError.exit_status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the exit flushes
        return CommandError.exit_status
    except OSError as error:
        return _complain(str(error), CommandError.exit_status)
    return status if isinstance(status, int) else 0


def _complain(what: str, status: int) -> int:
    sys.stderr.write(f"everstep: {' '.join(what.split())}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
