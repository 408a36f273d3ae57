"""Settings from EVERSTEP_* variables; an unknown one or a bad value stops the start."""

import os
import re
import secrets
import socket
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from everstep_contract.base import Name
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from everstep_runtime.errors import SettingsError

PREFIX: Final = "EVERSTEP_"
EXIT_BAD_SETTINGS: Final = 2
_SERVICE_LINK: Final = re.compile(r"_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)")
"""Variables that Kubernetes makes of every Service whose name begins with ``everstep-``."""
_SERVICE_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")
_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s]*@")


def without_credentials(text: str) -> str:
    """``text`` without the user and password part of any URL in it."""
    return _USER_INFO.sub("***@", text)


def server_urls(text: str) -> tuple[str, ...]:
    """The NATS servers that ``text`` lists, separated by commas.

    Raises:
        ValueError: One of them is no address of a server.
    """
    urls = tuple(text.split(","))
    for url in urls:
        if not _is_server(url):
            raise ValueError(f"{without_credentials(url)!r} is not like nats://HOST:PORT")
    return urls


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        sound = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return sound and parts.scheme in ("nats", "tls") and not re.search(r"\s", url)


def _checked(text: str) -> str:
    server_urls(text)
    return text


def one_life(name: str) -> str:
    """A name for one life of one process, for leases and connections; never reused.

    Two processes that are given the same name would else take each other's lease for their own.
    """
    return f"{name}-{os.getpid()}-{secrets.token_hex(3)}"


class ProcessSettings(BaseModel):
    """What every process can be told. A field ``x`` is set by the variable ``EVERSTEP_X``."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    nats_url: Annotated[str, AfterValidator(_checked)] = "nats://127.0.0.1:4222"
    nats_seed_path: Path | None = Field(default=None, description="The role's nkey seed.")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def nats_urls(self) -> tuple[str, ...]:
        """The servers of ``nats_url``, which may list several, separated by commas."""
        return server_urls(self.nats_url)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Settings from ``environ``; a wrong one ends the process with one line on stderr."""
        try:
            settings = cls.parse(environ)
            settings.require_files()
        except SettingsError as error:
            sys.stderr.write(f"{error}\n")
            raise SystemExit(EXIT_BAD_SETTINGS) from None
        return settings

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        """Settings from ``environ``; an empty value leaves the default.

        Raises:
            SettingsError: The first variable that is unknown, or whose value does not fit.
        """
        given = {name: value for name, value in environ.items() if _is_ours(name, value)}
        fields = {name.removeprefix(PREFIX).lower(): value for name, value in given.items()}
        for (variable, value), field in zip(given.items(), fields, strict=True):
            if field not in cls.model_fields:
                raise _unknown(variable, value, cls.model_fields)
        try:
            return cls.model_validate({field: value for field, value in fields.items() if value})
        except ValidationError as error:
            raise _unfit(error, given) from None

    def require_files(self) -> None:
        """Make sure that what is to be read can be: a bus client would try again for ever.

        Raises:
            SettingsError: The first file that cannot be read.
        """
        for field, value in self:
            try:
                if isinstance(value, Path):
                    value.open("rb").close()
            except OSError as error:
                variable, why = PREFIX + field.upper(), error.strerror or str(error)
                raise SettingsError(variable=variable, value=str(value), why=why) from error


class ServiceSettings(ProcessSettings):
    """What every service can be told."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(default=9464, ge=0, le=65535, description="0: any free port.")
    instance: Annotated[Name, Field(max_length=200), AfterValidator(one_life)] = Field(
        default_factory=socket.gethostname,
        description="A name to know it by; each life adds its own end.",
    )


def _is_ours(variable: str, value: str) -> bool:
    if not variable.startswith(PREFIX):
        return False
    return not (_SERVICE_LINK.search(variable) or _SERVICE_LINK_VALUE.match(value))


def _unknown(variable: str, value: str, fields: Mapping[str, Any]) -> SettingsError:
    known = [PREFIX + field.upper() for field in fields]
    nearest = get_close_matches(variable, known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(known))}"
    return SettingsError(
        variable=variable, value=without_credentials(value), why=f"no such setting; {hint}"
    )


def _unfit(error: ValidationError, given: Mapping[str, str]) -> SettingsError:
    first = error.errors(include_url=False)[0]
    variable = PREFIX + str(first["loc"][0]).upper() if first["loc"] else PREFIX + "*"
    value = without_credentials(given.get(variable, ""))
    why = first["msg"].removeprefix("Value error, ")
    return SettingsError(variable=variable, value=value, why=why)
