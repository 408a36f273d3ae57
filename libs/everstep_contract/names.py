"""Names as tokens of subjects and keys, reversibly (R3).

NATS splits subjects at dots and gives ``*`` and ``>`` a meaning; key-value keys admit only
``[-/_=.a-zA-Z0-9]``. Kubernetes names contain dots. So every byte outside ``[A-Za-z0-9_-]``
becomes ``=XX`` (two upper-case hex digits), as in quoted-printable.
"""

import re

from everstep_contract.errors import InvalidNameError

MAX_NAME_BYTES = 253
"""Longest name of a Kubernetes object (RFC 1123 subdomain)."""

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_TOKEN = re.compile(r"(?:[A-Za-z0-9_-]|=[0-9A-F]{2})+")


def encode_name(name: str) -> str:
    """``name`` as one token; `decode_name` gives it back.

    Raises:
        InvalidNameError: It is empty, longer than `MAX_NAME_BYTES`, or not encodable text.
    """
    if not name:
        raise InvalidNameError(name, "empty")
    try:
        raw = name.encode()
    except UnicodeEncodeError as error:
        raise InvalidNameError(name, "not valid unicode") from error
    if len(raw) > MAX_NAME_BYTES:
        raise InvalidNameError(name, f"longer than {MAX_NAME_BYTES} bytes")
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in raw)


def decode_name(token: str) -> str:
    """The name that `encode_name` made ``token`` of.

    Raises:
        InvalidNameError: No name is encoded like this.
    """
    if not _TOKEN.fullmatch(token):
        raise InvalidNameError(token, "not an encoded name")
    raw = re.sub(r"=([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), token)
    try:
        name = raw.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        raise InvalidNameError(token, "does not decode to text") from error
    if encode_name(name) != token:
        raise InvalidNameError(token, "not the canonical encoding")
    return name
