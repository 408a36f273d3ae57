"""Takes JSON apart as it really comes: null for a list, a number for a text, anything missing."""

import re
from typing import Any, Final

Json = dict[str, Any]

WORD_CHARACTERS: Final = 253
SENTENCE_CHARACTERS: Final = 500
UNREADABLE_ERRORS: Final = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(OverflowError,),  # 1e999 is JSON
)
"""What reading an object raises that is not built as it should be."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def is_name(text: str) -> bool:
    """Whether an object can have this name; any other, in a path, would ask for something else."""
    return len(text) <= WORD_CHARACTERS and _NAME.fullmatch(text) is not None


def mapping(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> tuple[Json, ...]:
    """The objects of a list; whatever else is in it, or is no list, is left out."""
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def word(value: Any) -> str:
    """A name or a reason, bounded; empty when there is none."""
    return _text(value, WORD_CHARACTERS)


def named(value: Any) -> str:
    """What an object cannot be without: its name, its namespace, its uid.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, str) or not 0 < len(value) <= WORD_CHARACTERS:
        raise ValueError(f"no name: {str(value)[:WORD_CHARACTERS]!r}")
    return word(value)


def sentence(value: Any) -> str:
    """A message for people, bounded; empty when there is none."""
    return _text(value, SENTENCE_CHARACTERS)


def _text(value: Any, most: int) -> str:
    """Half a character, which JSON can spell and no message can carry, is replaced."""
    text = str(value)[:most] if value is not None else ""
    return text if text.isascii() else text.encode(errors="replace").decode()
