"""What one rank has for itself beside the state that all share: JSON, in a shard of its own."""

import hashlib
import json
import sys
from dataclasses import dataclass
from typing import Any

from everstep_trainer.library.rng import from_json, to_json
from everstep_trainer.library.transfer import Place


@dataclass(frozen=True)
class OwnShard:
    """A rank's own part of a step.

    Attributes:
        rank, world_size: Whose, of how many.
        step: Completed steps: where the data goes on, for the step drives it.
        configuration: A hash of how the script was started.
        shared_streams: Libraries whose random states were the same on all ranks.
        rng: Random states, by library.
    """

    rank: int
    world_size: int
    step: int
    configuration: str
    shared_streams: tuple[str, ...]
    rng: dict[str, Any]

    def to_json(self) -> str:
        """As text, bit for bit."""
        return json.dumps({**vars(self), "rng": to_json(self.rng)})

    @classmethod
    def from_json(cls, text: str) -> "OwnShard":
        """The inverse of `to_json`."""
        fields = json.loads(text)
        fields["shared_streams"] = tuple(fields["shared_streams"])
        return cls(**{**fields, "rng": from_json(fields["rng"])})

    def rng_for(self, place: Place) -> dict[str, Any]:
        """The random states that this worker goes on with: all if it is that rank, else shared."""
        if (self.rank, self.world_size) == (place.rank, place.world_size):
            return self.rng
        return {name: self.rng[name] for name in self.shared_streams if name in self.rng}


def configuration() -> str:
    """A hash of the script's arguments: not the arguments, among which there may be secrets."""
    text = "\0".join(sys.argv[1:])
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()
