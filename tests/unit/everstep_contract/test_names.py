"""Names as tokens (R3)."""

import re

import pytest
from everstep_contract.errors import InvalidNameError
from everstep_contract.identity import JobKey
from everstep_contract.names import MAX_NAME_BYTES, decode_name, encode_name
from hypothesis import given
from hypothesis import strategies as st

KEY_TOKEN = re.compile(r"[-/_=a-zA-Z0-9]+")
"""What NATS admits in a key, less the dot that separates tokens."""

names = st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_NAME_BYTES
).filter(lambda name: len(name.encode()) <= MAX_NAME_BYTES)


@given(names)
def test_r3_every_name_comes_back_from_its_token(name: str) -> None:
    token = encode_name(name)
    assert decode_name(token) == name
    assert KEY_TOKEN.fullmatch(token)


@given(names, names)
def test_r3_two_names_never_share_a_token(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


@given(st.text(max_size=30))
def test_a_token_is_refused_unless_it_is_exactly_what_some_name_becomes(token: str) -> None:
    try:
        name = decode_name(token)
    except InvalidNameError:
        return
    assert encode_name(name) == token


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("node-7.rack-a", "node-7=2Erack-a"),
        ("a b*c>d", "a=20b=2Ac=3Ed"),
        ("=2E", "=3D2E"),
        ("größe", "gr=C3=B6=C3=9Fe"),
    ],
)
def test_r3_what_breaks_subjects_is_written_in_hexadecimal(name: str, token: str) -> None:
    assert encode_name(name) == token


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME_BYTES + 1), "\ud800"])
def test_a_name_that_cannot_be_carried_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        encode_name(name)


@pytest.mark.parametrize("token", ["", "a.b", "=2e", "=41", "=FF", "=", "a b"])
def test_a_token_that_no_name_becomes_is_refused(token: str) -> None:
    with pytest.raises(InvalidNameError):
        decode_name(token)


@given(names, names)
def test_r3_a_job_comes_back_from_its_token(namespace: str, name: str) -> None:
    key = JobKey(namespace=namespace, name=name)
    assert JobKey.from_token(key.token) == key


def test_a_jobs_token_has_two_parts() -> None:
    with pytest.raises(InvalidNameError, match="two parts"):
        JobKey.from_token("alone")
