"""The way into a cluster: its address and our credentials, read again because they rotate.

A service account's token lives about an hour, certificates some days. Both are files that somebody
else replaces, so they are read once a minute, and at once when the server refuses them.
"""

import asyncio
import hashlib
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from everstep_kube.errors import KubeConfigError
from everstep_kube.kubeconfig import VARIABLE

REFRESH_SECONDS: Final = 60.0
SPACING_SECONDS: Final = 1.0
"""The least time between two readings: a plugin may be a program that takes a while."""
LOAD_SECONDS: Final = 15.0
_UNUSABLE: Final = (
    *(ConfigException, yaml.YAMLError, OSError),
    *(ValueError, LookupError, TypeError, AttributeError),
)

log = structlog.get_logger()


@dataclass(frozen=True)
class Access:
    """Where the API server is, how its certificate is checked, and what we show it.

    ``authorization`` is the header's value, empty for none. ``fingerprint`` is of all the rest.
    """

    host: str
    authorization: str
    tls: ssl.SSLContext
    server_name: str | None
    proxy: str | None
    fingerprint: str


class Entrance:
    """Keeps the access to one cluster current."""

    def __init__(self, kubeconfig: Sequence[Path]) -> None:
        """Without any file the pod's service account is used."""
        self._kubeconfig = tuple(kubeconfig)
        self._access: Access | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()
        self._complained = False

    async def access(self) -> Access:
        """The access to use now.

        Raises:
            KubeConfigError: There has never been any.
        """
        if self._access is None:
            async with self._reading:
                self._access = await self._load()
                self._read_at = _now()
        elif _now() - self._read_at >= REFRESH_SECONDS:
            await self._read_again(self._access)
        return self._access

    async def differs_from(self, refused: Access) -> bool:
        """Whether there is another access than the one that the server refused, when read anew."""
        await self._read_again(refused)
        return self._access != refused

    async def _read_again(self, used: Access) -> None:
        """Read again what ``used`` was read from; what cannot be read now is kept."""
        async with self._reading:
            if self._access != used or _now() - self._read_at < SPACING_SECONDS:
                return
            try:
                self._access = await self._load()
                self._complained = False
            except KubeConfigError as error:
                if not self._complained:
                    log.warning(
                        "credentials not readable, the last ones are kept", error=str(error)
                    )
                self._complained = True
            finally:
                self._read_at = _now()

    async def _load(self) -> Access:
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                configuration = await _configuration(self._kubeconfig)
            return _access(configuration, self._access)
        except TimeoutError as error:
            late = f"nothing within {LOAD_SECONDS:g} s; a credential plugin may hang"
            raise KubeConfigError(f"no cluster by {self._where}: {late}") from error
        except _UNUSABLE as error:
            raise KubeConfigError(f"no cluster by {self._where}: {error}") from error

    @property
    def _where(self) -> str:
        files = ", ".join(map(str, self._kubeconfig))
        return files or f"this pod's service account ({VARIABLE} and ~/.kube/config name no other)"


async def _configuration(kubeconfig: tuple[Path, ...]) -> Configuration:
    configuration = Configuration()
    in_file: Any = load_kube_config  # the client has no type hints for these two
    in_pod: Any = load_incluster_config
    if not kubeconfig:
        in_pod(client_configuration=configuration, try_refresh_token=False)
        return configuration
    there = {path: _said(path) for path in kubeconfig if path.exists()}
    if not any(there.values()):
        raise ConfigException("it is empty" if there else "no such file")
    full = {path: said for path, said in there.items() if said}
    # the first context that is named, as kubectl chooses; the loader would obey the last
    loader = await in_file(
        config_file=os.pathsep.join(map(str, full)),
        context=next(filter(None, (one.get("current-context") for one in full.values())), None),
        client_configuration=configuration,
        persist_config=False,
    )
    user = loader._user  # the loader swallows it when a plugin fails
    plugin_failed = user and "exec" in user and not configuration.api_key
    if plugin_failed and not configuration.cert_file:
        raise ConfigException("its credential plugin gave none")
    return configuration


def _said(path: Path) -> dict[str, Any]:
    """What a file says; the loader cannot read one that is empty."""
    said = yaml.safe_load(path.read_text()) or {}
    if not isinstance(said, dict):
        raise ConfigException(f"{path} is no kubeconfig")
    return said


def _access(configuration: Configuration, before: Access | None) -> Access:
    """The access that a configuration means. An unchanged context keeps its open connections."""
    fingerprint = _fingerprint(configuration)
    unchanged = before is not None and before.fingerprint == fingerprint
    rest: Any = RESTClientObject
    return Access(
        host=configuration.host,
        authorization=str(configuration.api_key.get("BearerToken") or "").strip(),
        tls=before.tls if before is not None and unchanged else rest(configuration).ssl_context,
        server_name=configuration.tls_server_name or None,
        proxy=configuration.proxy or None,
        fingerprint=fingerprint,
    )


def _fingerprint(configuration: Configuration) -> str:
    """Tells two configurations apart, the token left out."""
    said = (
        *(configuration.host, configuration.verify_ssl, configuration.ca_cert_data),
        *(configuration.tls_server_name, configuration.proxy),
    )
    digest = hashlib.sha256(repr(said).encode())
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(Path(path).read_bytes() if path else b"none")
        digest.update(b"\0")
    return digest.hexdigest()


def _now() -> float:
    return asyncio.get_running_loop().time()
