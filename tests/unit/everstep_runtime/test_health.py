"""Health: ready means that consuming was proven lately; metrics and probes share a port."""

import asyncio
import socket

import pytest
from everstep_runtime.clock import SystemClock
from everstep_runtime.errors import PortUnavailableError
from everstep_runtime.health import PROOF_SECONDS, Readiness, serve_health


class SteppedClock(SystemClock):
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


async def _get(port: int, request: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def test_a_service_that_expects_nothing_yet_is_not_ready() -> None:
    assert Readiness(SystemClock()).unproven() == ("start",)


def test_ready_only_while_every_expected_subscription_is_proven() -> None:
    clock = SteppedClock()
    readiness = Readiness(clock)
    readiness.expect("jobs", "orders")
    readiness.prove("jobs")
    assert readiness.unproven() == ("orders",)
    readiness.prove("orders")
    assert readiness.unproven() == ()
    clock.seconds += PROOF_SECONDS + 1
    readiness.prove("orders")
    assert readiness.unproven() == ("jobs",)


async def test_probes_and_metrics_are_answered_on_the_port_that_was_really_opened() -> None:
    readiness = Readiness(SystemClock())
    async with serve_health("127.0.0.1", 0, readiness) as port:
        assert "503" in await _get(port, "GET /readyz HTTP/1.1\r\n\r\n")
        readiness.expect("jobs")
        readiness.prove("jobs")
        assert "200 OK" in await _get(port, "GET /readyz HTTP/1.1\r\n\r\n")
        assert "200 OK" in await _get(port, "GET /healthz HTTP/1.1\r\n\r\n")
        assert "# TYPE" in await _get(port, "GET /metrics HTTP/1.1\r\n\r\n")
        assert "404" in await _get(port, "GET /else HTTP/1.1\r\n\r\n")
        assert "405" in await _get(port, "POST /healthz HTTP/1.1\r\n\r\n")


async def test_a_request_that_is_none_is_dropped_and_the_next_one_answered() -> None:
    async with serve_health("127.0.0.1", 0, Readiness(SystemClock())) as port:
        assert await _get(port, "x" * 20_000 + "\r\n\r\n") == ""
        assert "200 OK" in await _get(port, "GET /healthz HTTP/1.1\r\n\r\n")


async def test_ec67_a_port_that_is_taken_is_a_clear_error_naming_it() -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        with pytest.raises(PortUnavailableError, match=f"127.0.0.1:{port}: .*in use"):
            async with serve_health("127.0.0.1", port, Readiness(SystemClock())):
                pass
