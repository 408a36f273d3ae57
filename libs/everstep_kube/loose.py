"""Takes JSON apart as it really comes: null for a list, a number for a text, anything missing."""

from typing import Any, Final

Json = dict[str, Any]

WORD_CHARACTERS: Final = 253
SENTENCE_CHARACTERS: Final = 500


def mapping(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> tuple[Json, ...]:
    """The objects of a list; whatever else is in it, or is no list, is left out."""
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def word(value: Any) -> str:
    """A name or a reason, bounded; empty when there is none."""
    return str(value)[:WORD_CHARACTERS] if value is not None else ""


def sentence(value: Any) -> str:
    """A message for people, bounded; empty when there is none."""
    return str(value)[:SENTENCE_CHARACTERS] if value is not None else ""
