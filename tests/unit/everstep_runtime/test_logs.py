"""Logs: one JSON object a line, whoever logs it, and no credentials in any."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from everstep_runtime.logs import configure_logs

Lines = Callable[[Callable[[], None]], list[dict[str, Any]]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    """What ``act`` makes the process write, configured as a service is, with nobody else's logs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def written(act: Callable[[], None]) -> list[dict[str, Any]]:
        configure_logs("rescaler", instance="one", level="info")
        act()
        root.handlers[:] = handlers
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    yield written
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_line_is_one_json_object_with_its_fields_and_its_service(lines: Lines) -> None:
    (line,) = lines(lambda: structlog.get_logger().info("suspected", node="node-1", text="a\nb"))
    assert (line["event"], line["node"], line["level"]) == ("suspected", "node-1", "info")
    assert (line["service"], line["instance"]) == ("rescaler", "one")


def test_a_library_logs_in_the_same_shape(lines: Lines) -> None:
    (line,) = lines(lambda: logging.getLogger("nats").warning("slow %s", "consumer"))
    assert (line["event"], line["level"]) == ("slow consumer", "warning")


def test_an_exception_with_its_traceback_stays_on_one_line(lines: Lines) -> None:
    def fail() -> None:
        try:
            raise ValueError("wrong")
        except ValueError as error:
            structlog.get_logger().error("failed", exc_info=error)

    (line,) = lines(fail)
    assert "ValueError: wrong" in line["exception"]


def test_what_is_below_the_level_is_not_written(lines: Lines) -> None:
    assert lines(lambda: structlog.get_logger().debug("quiet")) == []


def test_credentials_are_masked_in_names_and_in_urls(lines: Lines) -> None:
    def connect() -> None:
        structlog.get_logger().info("go", nats_seed="SUAX", url="nats://a:b@c:1", seed_path="/s")
        logging.getLogger("nats").warning("no way to nats://a:b@c:1")

    ours, theirs = lines(connect)
    assert (ours["nats_seed"], ours["url"], ours["seed_path"]) == ("***", "nats://***@c:1", "/s")
    assert "a:b" not in theirs["event"]
