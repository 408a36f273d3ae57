"""Everything that can be wrong with a message or a name.

EverstepError
└── ContractError               the words themselves are wrong; never worth a retry
    ├── InvalidNameError        a name that no subject or key can carry
    ├── InvalidSubjectError     a subject that is none of ours
    ├── UnknownTypeError        a message type nobody here has a model for
    └── InvalidPayloadError     a payload that does not fit its type
"""


class EverstepError(Exception):
    """Root of every error that Everstep raises on purpose."""


class ContractError(EverstepError):
    """The words themselves are wrong: retrying cannot help."""


class InvalidNameError(ContractError):
    """A name that cannot be carried in a subject or a key."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"invalid name {name!r}: {why}")
        self.name = name


class InvalidSubjectError(ContractError):
    """A subject that does not follow the layout of `subjects`."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"not a subject of ours: {subject!r}")
        self.subject = subject


class UnknownTypeError(ContractError):
    """A message whose declared type has no model in this version."""

    def __init__(self, message_type: str) -> None:
        super().__init__(f"unknown message type {message_type!r}")
        self.message_type = message_type


class InvalidPayloadError(ContractError):
    """A payload that does not fit the model of its declared type."""

    def __init__(self, message_type: str, detail: str) -> None:
        super().__init__(f"payload does not fit {message_type!r}: {detail}")
        self.message_type = message_type
