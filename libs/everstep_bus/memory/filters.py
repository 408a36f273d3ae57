"""Which subjects a filter with ``*`` and ``>`` admits, as nats-server decides it."""

from functools import lru_cache


@lru_cache(maxsize=4096)
def admits(subject_filter: str, subject: str) -> bool:
    """Whether ``subject_filter`` admits ``subject``."""
    wanted, tokens = subject_filter.split("."), subject.split(".")
    if wanted[-1] == ">":
        head = wanted[:-1]
        return len(tokens) > len(head) and _same(head, tokens[: len(head)])
    return len(wanted) == len(tokens) and _same(wanted, tokens)


def _same(wanted: list[str], tokens: list[str]) -> bool:
    return all(want in ("*", token) for want, token in zip(wanted, tokens, strict=True))
