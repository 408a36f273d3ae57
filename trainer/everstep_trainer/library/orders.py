"""Hear the agent, on a thread of its own: an order ends the running generation at once.

Only the newest order counts; older ones are dropped wherever they are met (R9).
"""

import contextlib
import logging
import socket
import struct
import threading
from typing import Final

from pydantic import ValidationError

from everstep_trainer.backend.ending import Ending
from everstep_trainer.library.errors import AgentGoneError
from everstep_trainer.link import (
    MAX_LINE_BYTES,
    TO_WORKER,
    Assignment,
    Finish,
    Park,
    ToAgent,
    ToWorker,
    to_line,
)

log = logging.getLogger("everstep")

SEND_TIMEOUT_SECONDS: Final = 5
"""An agent that reads nothing for so long is as good as gone: it gets a few lines a generation."""


class Orders:
    """What the agent ordered last. Safe from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: ToWorker | None = None
        self._generation = 0
        self._finished = False
        self._agent_gone = False
        self._ending: Ending | None = None

    @property
    def generation(self) -> int:
        """The newest generation heard of; 0: none."""
        return self._generation

    def put(self, order: ToWorker) -> bool:
        """Take an order in, and end the generation it replaces; whether it was news."""
        with self._changed:
            if not self._is_news(order):
                return False
            if isinstance(order, Finish):
                self._finished = True
            else:
                self._generation = order.generation
            self._pending = order
            ending = self._ending
            self._changed.notify_all()
        if ending is not None:
            ending.end(_reason(order))
        return True

    def agent_gone(self) -> None:
        """No order will come any more, so the generation ends and `wait` says so."""
        with self._changed:
            self._agent_gone = True
            ending = self._ending
            self._changed.notify_all()
        if ending is not None:
            ending.end("the agent is gone")

    def watch(self, ending: Ending | None) -> None:
        """Have the next order end this generation; at once if it is there already."""
        with self._changed:
            self._ending = ending
            pending, gone = self._pending, self._agent_gone
        if ending is not None and pending is not None:
            ending.end(_reason(pending))
        elif ending is not None and gone:
            ending.end("the agent is gone")

    def take(self) -> ToWorker | None:
        """The order that has not been taken yet, if there is one."""
        with self._changed:
            order, self._pending = self._pending, None
            return order

    def has_news(self) -> bool:
        """Whether there is an order that has not been taken yet, or will never be one."""
        with self._changed:
            return self._pending is not None or self._agent_gone

    def wait(self, timeout: float | None = None) -> ToWorker | None:
        """Take the next order; None after ``timeout`` seconds.

        Raises:
            AgentGoneError: The agent is gone, so none will come.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._pending is not None or self._agent_gone, timeout)
            if self._pending is None and self._agent_gone:
                raise AgentGoneError("the agent of this worker is gone")
            return self.take()

    def _is_news(self, order: ToWorker) -> bool:
        if self._finished:
            return False
        match order:
            case Finish():
                return True
            case Park():
                return order.generation >= self._generation
            case Assignment():
                return order.generation > self._generation


def _reason(order: ToWorker) -> str:
    match order:
        case Assignment():
            return f"generation {order.generation} is ordered"
        case Park():
            return f"told to park by generation {order.generation}"
        case Finish():
            return f"told to finish: {order.reason}"


class Link:
    """This worker's end of the socket to its agent."""

    def __init__(self, connection: socket.socket, orders: Orders) -> None:
        self._connection = connection
        self._orders = orders
        timeout = struct.pack("@ll", SEND_TIMEOUT_SECONDS, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        threading.Thread(target=self._listen, name="everstep listener", daemon=True).start()

    def send(self, message: ToAgent) -> None:
        """Tell the agent; a few messages a generation, so this never waits in practice.

        Raises:
            AgentGoneError: The agent is gone, or has read nothing for a long time.
        """
        try:
            self._connection.sendall(to_line(message))
        except OSError as error:
            raise AgentGoneError(f"cannot tell the agent {message.kind!r}: {error}") from error

    def _listen(self) -> None:
        try:
            with contextlib.suppress(OSError), self._connection.makefile("rb") as lines:
                while line := lines.readline(MAX_LINE_BYTES):
                    self._hear(line)
        finally:
            self._orders.agent_gone()  # a deaf worker could not be told to stop

    def _hear(self, line: bytes) -> None:
        try:
            order = TO_WORKER.validate_json(line)
        except ValidationError as error:
            log.error("an order that cannot be read is ignored: %s", error)
            return
        if not self._orders.put(order):
            log.info("an order that is not newer is ignored: %s", order.kind)
