"""Each answer of an API server has one class of error, whatever it says besides."""

import pytest
from everstep_kube.errors import (
    AlreadyExistsError,
    AnswerError,
    ConflictError,
    DeniedError,
    GoneError,
    InvalidError,
    NotFoundError,
    ThrottledError,
    UnavailableError,
    error_of,
)
from hypothesis import given
from hypothesis import strategies as st

SET = {
    *(AlreadyExistsError, ConflictError, DeniedError, GoneError, InvalidError),
    *(NotFoundError, ThrottledError, UnavailableError),
}


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (0, "", UnavailableError),
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", DeniedError),
        (403, "Forbidden", DeniedError),
        (404, "NotFound", NotFoundError),
        (408, "", UnavailableError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "", ConflictError),
        (410, "Expired", GoneError),
        (413, "RequestEntityTooLarge", InvalidError),
        (415, "UnsupportedMediaType", InvalidError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", ThrottledError),
        (500, "", UnavailableError),
        (504, "Timeout", UnavailableError),
    ],
)
def test_the_status_and_its_reason_name_the_class(
    status: int, reason: str, kind: type[AnswerError]
) -> None:
    assert type(error_of("GET /", status, "", reason=reason)) is kind


@given(st.integers(), st.text(), st.text())
def test_no_answer_is_outside_the_set(status: int, reason: str, message: str) -> None:
    assert type(error_of("GET /", status, message, reason=reason)) in SET
