"""What can go wrong with a manifest before a rule has looked at it.

EverstepError
└── UnreadableError         it is no YAML that Kubernetes would take
"""

from everstep_contract.errors import EverstepError


class UnreadableError(EverstepError):
    """A text in which no rule can look for anything."""

    def __init__(self, file: str, why: str, *, line: int | None = None) -> None:
        where = f"{file}:{line}" if line else file
        super().__init__(f"{where}: {why}")
        self.file = file
        self.line = line
        self.why = why
