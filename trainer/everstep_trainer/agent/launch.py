"""From a command line and the environment to a running agent, or to one line that says why not."""

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from everstep_bus.errors import AccessDeniedError
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_checkpoint.errors import UnusableRootError
from everstep_checkpoint.media import Key
from everstep_checkpoint.storage import Storage, storage_at
from everstep_contract.clients import agent_client_name
from everstep_contract.identity import Endpoint
from everstep_runtime.clock import SystemClock
from everstep_runtime.errors import SettingsError
from everstep_runtime.logs import configure_logs
from everstep_runtime.settings import without_credentials

from everstep_trainer.agent.config import AgentSettings, me
from everstep_trainer.agent.ending import EXIT_STATUS
from everstep_trainer.agent.flags import Command, UsageError
from everstep_trainer.agent.model import Me
from everstep_trainer.agent.process import go_first
from everstep_trainer.agent.service import Life, serve
from everstep_trainer.agent.zygote import Zygote

EXIT_USAGE: Final = 2


def launch(command: Command, zygote: Zygote, environ: Mapping[str, str]) -> int:
    """Be this command's agent; the process's exit status."""
    go_first()
    try:
        settings = AgentSettings.parse(_with_flags(command, environ))
        settings.require_files()
        _make_folder("--log-dir ", command.log_dir)
        _make_folder("EVERSTEP_STEP_LOG=", settings.step_log)
        storage = _storage(settings.checkpoint_root)
        listener = _listen(settings)
        born = _me(command, settings, listener, environ)
        if storage is not None:
            born = replace(born, saved_generation=_saved_generation(storage, born))
        configure_logs("agent", instance=born.incarnation, level=settings.log_level)
        life = Life(
            born, zygote, listener, born.job.name, command.log_dir, settings.checkpoint_root
        )
        return asyncio.run(_run(life, settings))
    except (SettingsError, UsageError, AccessDeniedError) as error:
        sys.stderr.write(f"everstep run: {error}\n")
        return EXIT_USAGE


def _with_flags(command: Command, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with what the command line says in place of what it says."""
    given = {"EVERSTEP_JOB_NAME": command.job, "EVERSTEP_JOB_NAMESPACE": command.namespace}
    return {**environ, **{name: value for name, value in given.items() if value}}


def _listen(settings: AgentSettings) -> socket.socket:
    try:
        host = settings.host()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, 0), family=family)
    except (OSError, ValueError) as error:
        variable = "POD_IP" if settings.pod_ip else "NATS_URL"
        said = without_credentials(settings.pod_ip or settings.nats_url)
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen for peers (EVERSTEP_{variable}={said}): {why}") from error


def _me(
    command: Command, settings: AgentSettings, listener: socket.socket, environ: Mapping[str, str]
) -> Me:
    host, port = listener.getsockname()[:2]
    scheduled = environ.get("WORLD_SIZE", "")
    return replace(
        me(settings, command, Endpoint(host=host, port=port)),
        scheduler_world_size=int(scheduled) if scheduled.isdecimal() else None,
    )


async def _run(life: Life, settings: AgentSettings) -> int:
    _cancel_on_signals()
    async with AsyncExitStack() as stack:
        try:
            bus = await _connect(life, settings, stack)
        except asyncio.CancelledError:
            return EXIT_STATUS["terminated"]
        return await serve(life, bus, SystemClock())


def _cancel_on_signals() -> None:
    """Until the agent takes them over."""
    task = asyncio.current_task()
    assert task is not None
    for end in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(end, task.cancel)


def _make_folder(asked_by: str, folder: str) -> None:
    """Now: a worker that finds out that there can be none dies, and is started again."""
    try:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{asked_by}{folder}: {error.strerror}") from error


def _storage(root: str) -> Storage | None:
    try:
        return storage_at(root, to_write=True) if root else None
    except UnusableRootError as error:
        raise UsageError(f"EVERSTEP_CHECKPOINT_ROOT={error}") from error


def _saved_generation(storage: Storage, born: Me) -> int:
    try:
        return storage.newest_generation(born.job, born.member.job_uid)
    except OSError as error:
        where = f"EVERSTEP_CHECKPOINT_ROOT={storage.where(Key())}"
        raise UsageError(f"{where}: cannot look for checkpoints there: {error.strerror}") from error


async def _connect(life: Life, settings: AgentSettings, stack: AsyncExitStack) -> Bus:
    name = agent_client_name(life.me.job, life.me.incarnation)
    try:
        async with asyncio.timeout(settings.connect_seconds):
            return await stack.enter_async_context(
                connect(settings.nats_urls, name, seed_path=settings.nats_seed_path)
            )
    except TimeoutError:
        url = without_credentials(settings.nats_url)
        raise UsageError(
            f"no NATS server answers at {url} within {settings.connect_seconds:g} s"
        ) from None
