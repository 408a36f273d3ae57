"""JSON logs on stderr, one event a line, without credentials; libraries' logs come out alike."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from everstep_runtime.settings import without_credentials

_SECRET_WORDS: Final = ("password", "secret", "seed", "token", "credential")


def configure_logs(service: str, *, instance: str, level: str) -> None:
    """Send everything this process logs, libraries included, to stderr as JSON lines."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.format_exc_info,
        _Stamp(service, instance),
        hide_credentials,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class _Stamp:
    """Puts the service and its instance on every line."""

    def __init__(self, service: str, instance: str) -> None:
        self._fields = {"service": service, "instance": instance}

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        return {**self._fields, **event}


def hide_credentials(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Mask values named like secrets, and the user part of URLs, in one event."""
    return {key: _masked(key, value) for key, value in event.items()}


def _masked(key: str, value: Any) -> Any:
    if any(word in key.lower() for word in _SECRET_WORDS) and not key.endswith("_path"):
        return "***"
    return without_credentials(value) if isinstance(value, str) else value
