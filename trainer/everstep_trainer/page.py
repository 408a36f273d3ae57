"""The shared page: what a worker writes each step and its agent reads when it likes.

Two things go the other way. The agent vouches, again and again, for the generation that its worker
belongs to: a worker that was stopped for a while finds that nobody has vouched for it lately, and
takes no step before somebody does. And it notes how long it takes to make a snapshot durable.

A memfd, so nothing is left behind when both are gone. Every field is one aligned 8-byte store,
which machines make atomic; fields are not consistent with each other, and need not be.
"""

import fcntl
import math
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Final

PAGE_BYTES: Final = mmap.PAGESIZE
PHASES: Final = ("start", "form", "step", "evaluate", "checkpoint", "parked", "user")
"""What the loop can be doing; `user` is a phase that the script named itself."""

VOUCHED_SECONDS: Final = 0.75
"""How long the agent's word lasts; it is given four times a second. Who goes on without a silent
member takes the first step 0.9 s after it fell silent at the earliest (measured: two pings missed,
a probe, a group), so that its word is too old by then."""

FOR_EVER_NS: Final = (1 << 63) - 1
"""A time to vouch at whose word does not age: for whoever trains without an agent."""

NOBODY: Final = -1
"""What is vouched for when the agent has said nothing lately, or cannot know: no generation."""

RING: Final = 128
"""Step durations remembered: enough for a p99 of the current phase (R11)."""

_INTEGERS: Final = (
    "version",
    "step",
    "step_begun",
    "generation",
    "phase",
    "phase_began_ns",
    "steps",
    "vouched",
    "vouched_ns",
    "flush_ns",
)
_OFFSETS: Final = {field: 8 * index for index, field in enumerate(_INTEGERS)}
_RING_OFFSET: Final = 8 * len(_INTEGERS)


@dataclass(frozen=True)
class PageView:
    """One reading of the page; durations in seconds, newest last."""

    version: int
    step: int
    step_begun: int
    generation: int
    phase: str
    phase_began_ns: int
    step_seconds: tuple[float, ...]


class Page:
    """One worker's page; made by the agent, mapped by both."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, PAGE_BYTES)

    @classmethod
    def create(cls, name: str) -> "Page":
        """A new page that knows no state yet (version -1).

        Its size is sealed: reading what a worker had cut off would kill the agent.
        """
        fd = os.memfd_create(f"everstep-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, PAGE_BYTES)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        page = cls(fd)
        page.write("version", -1)
        return page

    def write(self, field: str, value: int) -> None:
        """Store one integer field."""
        struct.pack_into("<q", self._map, _OFFSETS[field], value)

    def enter_phase(self, phase: str, now_ns: int) -> None:
        """Say what the loop is doing from now (CLOCK_MONOTONIC, nanoseconds)."""
        self.write("phase", PHASES.index(phase))
        self.write("phase_began_ns", now_ns)

    def vouch(self, generation: int, now_ns: int) -> None:
        """Say which generation this worker may step in: 0 for none, `NOBODY` if unknown."""
        self.write("vouched", generation)
        self.write("vouched_ns", now_ns)

    def vouched(self, now_ns: int) -> int:
        """The generation that this worker may step in; `NOBODY` if that was said long ago."""
        is_old = now_ns - self._read("vouched_ns") > VOUCHED_SECONDS * 1e9
        return NOBODY if is_old else self._read("vouched")

    def note_flush(self, seconds: float) -> None:
        """Say how long it took to make this member's newest snapshot durable."""
        self.write("flush_ns", int(seconds * 1e9))

    def flush_ns(self) -> int:
        """What was noted last; 0 before."""
        return self._read("flush_ns")

    def add_step_seconds(self, seconds: float) -> None:
        """Remember how long a step took."""
        steps = self._read("steps")
        struct.pack_into("<d", self._map, _RING_OFFSET + 8 * (steps % RING), seconds)
        self.write("steps", steps + 1)

    def read(self) -> PageView:
        """What the page says now; what a stray write made impossible reads as nothing."""
        steps = self._read("steps")
        newest = [(steps - back - 1) % RING for back in range(min(steps, RING))]
        ring = struct.unpack_from(f"<{RING}d", self._map, _RING_OFFSET)
        return PageView(
            version=max(self._read("version"), -1),
            step=max(self._read("step"), 0),
            step_begun=max(self._read("step_begun"), 0),
            generation=max(self._read("generation"), 0),
            phase=PHASES[self._read("phase") % len(PHASES)],
            phase_began_ns=self._read("phase_began_ns"),
            step_seconds=tuple(ring[at] for at in reversed(newest) if 0 <= ring[at] < math.inf),
        )

    def close(self) -> None:
        """Unmap and close; the memory goes with the last holder."""
        self._map.close()
        os.close(self.fd)

    def _read(self, field: str) -> int:
        value: int = struct.unpack_from("<q", self._map, _OFFSETS[field])[0]
        return value
