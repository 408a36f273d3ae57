"""Who is meant: jobs, members and their incarnations, and where to reach them (R1)."""

from typing import Annotated

from pydantic import Field

from everstep_contract.base import Model, Name
from everstep_contract.errors import InvalidNameError
from everstep_contract.names import decode_name, encode_name

MachineIds = Annotated[
    tuple[Name, ...],
    Field(max_length=4, description="What a machine is known by, whatever its node is called."),
]


class JobKey(Model):
    """A job's namespace and name; a job made anew under the same name has another uid."""

    namespace: Name
    name: Name

    @property
    def token(self) -> str:
        """Two encoded tokens, for subjects and for keys."""
        return f"{encode_name(self.namespace)}.{encode_name(self.name)}"

    @classmethod
    def from_token(cls, token: str) -> "JobKey":
        """The inverse of `token`."""
        namespace, dot, name = token.partition(".")
        if not dot:
            raise InvalidNameError(token, "a job's token has two parts")
        return cls(namespace=decode_name(namespace), name=decode_name(name))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Member(Model):
    """One life of one agent. Two members are the same only if their incarnations are (R1)."""

    job_uid: Name
    name: Name = Field(description="The pod's name; a remade pod has the same one.")
    pod_uid: Name
    incarnation: Name = Field(description="One life of one agent; never reused.")
    node: Name

    @property
    def index(self) -> int | None:
        """Of its pod in the Job's task; None where the name tells none."""
        _, dash, digits = self.name.rpartition("-")
        return int(digits) if dash and digits.isascii() and digits.isdecimal() else None


class Endpoint(Model):
    """A TCP address inside the training network."""

    host: Name
    port: int = Field(ge=1, le=65535)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class GangSpec(Model):
    """How many members a job may run with, and how many workers each has."""

    min_member: int = Field(ge=1, le=100_000)
    max_member: int = Field(ge=1, le=100_000)
    nproc_per_node: int = Field(ge=1, le=1024)


class Seat(Model):
    """A member's place in a generation; seats are listed in rank order."""

    member: Member
    peer: Endpoint = Field(description="Where its agent answers probes and hands on orders.")
    store: Endpoint = Field(description="The rendezvous store that its agent hosts.")
    nproc: int = Field(ge=1, le=1024)
