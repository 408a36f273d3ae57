"""What can go wrong with a command, in one line for the person who typed it.

EverstepError
└── CommandError        it could not be done: exit status 1
    └── MisuseError     it was asked for wrongly: exit status 2
"""

from typing import ClassVar

from everstep_contract.errors import EverstepError


class CommandError(EverstepError):
    """What was asked for could not be done."""

    exit_status: ClassVar[int] = 1


class MisuseError(CommandError):
    """What was asked for makes no sense."""

    exit_status: ClassVar[int] = 2
