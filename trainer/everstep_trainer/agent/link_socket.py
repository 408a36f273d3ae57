"""The agent's end of one worker's link: lines in and out, never waiting for the worker."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import structlog
from pydantic import ValidationError

from everstep_trainer.link import MAX_LINE_BYTES, TO_AGENT, ToAgent, ToWorker, to_line

MAX_UNREAD_BYTES: Final = 4 * MAX_LINE_BYTES
"""What a worker may leave unread. One that reads nothing is killed by its leave budget long before
more orders than these have come."""
MAX_MISTAKES: Final = 100
"""Lines that are no messages before the link is closed: each is logged, and a flood of them would
keep the agent from everything else."""
_READ_BYTES: Final = 1 << 16

log = structlog.get_logger()


class LinkSocket:
    """Reads messages as they come and hands them on; keeps what the worker has not read yet."""

    def __init__(self, ours: socket.socket, heard: Callable[[ToAgent], None]) -> None:
        ours.settimeout(0)
        self._socket = ours
        self._heard = heard
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._mistakes = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours, self._read)

    @property
    def unread_bytes(self) -> int:
        """What was sent and the worker's socket has not taken yet."""
        return len(self._outgoing)

    def send(self, message: ToWorker) -> None:
        """Send, or keep until the worker reads; with too much unread the message is dropped."""
        if self._socket.fileno() < 0:
            return
        line = to_line(message)
        if len(self._outgoing) + len(line) > MAX_UNREAD_BYTES:
            log.warning("worker reads nothing, message dropped", kind=message.kind)
            return
        self._outgoing += line
        self._write()

    def close(self) -> None:
        """Hear no more and free the descriptor; what was sent before the end has been heard."""
        if self._socket.fileno() < 0:
            return
        self._read()
        self._forget()

    def _forget(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()

    def _write(self) -> None:
        if self._socket.fileno() < 0:
            return
        try:
            sent = self._socket.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:  # the worker is gone; its pidfd says so
            self._outgoing.clear()
            return
        del self._outgoing[:sent]
        if self._outgoing:
            self._loop.add_writer(self._socket, self._write)
        else:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._forget()
            return
        self._incoming += data
        *lines, rest = bytes(self._incoming).split(b"\n")
        self._incoming = bytearray(rest)
        for line in lines:
            if self._mistakes < MAX_MISTAKES:
                self._hear(line)
        if self._mistakes >= MAX_MISTAKES:
            log.error("worker sends what is no message, its link is closed", lines=MAX_MISTAKES)
            self._forget()
        if len(rest) > MAX_LINE_BYTES:
            log.error("worker sent a line without an end, its link is closed", bytes=len(rest))
            self._forget()

    def _hear(self, line: bytes) -> None:
        try:
            message = TO_AGENT.validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            self._mistakes += 1
            log.error("worker sent what is no message", why=first["msg"], bytes=len(line))
            return
        self._heard(message)
