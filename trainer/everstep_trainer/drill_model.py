"""What the drill trains: a byte-level transformer of five million parameters on real English text.

The text is the language reference that every CPython carries (`pydoc_data.topics`), so nothing is
downloaded. Sizes are chosen for eight workers on two cores: large enough that gradients are worth
averaging (20 MB a step), few enough bytes that a step takes a fraction of a second.
"""

import argparse
from collections.abc import Iterable
from pydoc_data import topics
from typing import Final

import torch
from torch import nn
from torch.nn import functional

VOCABULARY: Final = 256
CONTEXT_BYTES: Final = 16
WIDTH: Final = 368
HEADS: Final = 4
LAYERS: Final = 3
LEARNING_RATE: Final = 1e-3
WARM_UP_STEPS: Final = 10


class Block(nn.Module):
    """Attention, then a feed-forward, each behind a norm and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.attention_out = nn.Linear(WIDTH, WIDTH)
        self.forward_norm = nn.LayerNorm(WIDTH)
        self.forward_in = nn.Linear(WIDTH, 4 * WIDTH)
        self.forward_out = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(sequences, bytes, width) to the same."""
        hidden = hidden + self._attend(self.attention_norm(hidden))
        inner = functional.gelu(self.forward_in(self.forward_norm(hidden)))
        return hidden + self.forward_out(inner)  # type: ignore[no-any-return]  # torch's modules

    def _attend(self, hidden: torch.Tensor) -> torch.Tensor:
        sequences, length, _ = hidden.shape
        heads = self.queries_keys_values(hidden).view(sequences, length, 3, HEADS, WIDTH // HEADS)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.attention_out(mixed.transpose(1, 2).reshape(sequences, length, WIDTH))  # type: ignore[no-any-return]


class DrillModel(nn.Module):
    """Predicts the next byte. 5.1 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.zeros(CONTEXT_BYTES, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """The mean loss of ``text``, (sequences, context + 1) bytes, in nats a byte."""
        hidden = self.bytes(text[:, :-1]) + self.positions
        scores = self.head(self.norm(self.blocks(hidden)))
        return functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())


def make_model(seed: int) -> DrillModel:
    """The model as it begins: the same for the same seed."""
    torch.manual_seed(seed)
    return DrillModel()


def make_optimizer(model: nn.Module) -> torch.optim.AdamW:
    """AdamW over all of the model."""
    return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)


def make_scheduler(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    """A short warm-up, counted in steps."""
    return torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, WARM_UP_STEPS)


class Text:
    """The language reference, cut into windows that the step and the rank choose.

    A loader as `everstep` understands it: any process can ask for any step.

    Args:
        seed: Chooses the order of the windows.
    """

    def __init__(self, seed: int) -> None:
        text = "\n".join(topics.topics[name] for name in sorted(topics.topics))
        self._bytes = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        self._seed = seed

    def batches(self, step: int, rank: int, world_size: int) -> Iterable[torch.Tensor]:
        """One micro-batch of one window: (1, context + 1) bytes as whole numbers."""
        generator = torch.Generator().manual_seed(hash((self._seed, step, rank, world_size)))
        last = len(self._bytes) - CONTEXT_BYTES - 1
        start = int(torch.randint(last, (1,), generator=generator))
        return [self._bytes[start : start + CONTEXT_BYTES + 1].long().unsqueeze(0)]


def argument_parser(description: str) -> argparse.ArgumentParser:
    """What both scripts understand."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=1_000_000, help="optimizer steps in all")
    parser.add_argument("--seed", type=int, default=0, help="of the model and of the data")
    return parser
