"""The page that a worker and its agent share."""

import os

import pytest
from everstep_trainer.page import FOR_EVER_NS, NOBODY, PAGE_BYTES, VOUCHED_SECONDS, Page


def test_a_worker_cannot_cut_the_page_off_under_its_agent() -> None:
    page = Page.create("worker-0")
    with pytest.raises(PermissionError):
        os.ftruncate(page.fd, 0)
    assert page.read().version == -1
    page.close()


@pytest.mark.parametrize("stray", [b"\xff", b"\x80", b"\x7f"])
def test_a_stray_write_makes_no_impossible_reading(stray: bytes) -> None:
    page = Page.create("worker-0")
    os.pwrite(page.fd, stray * PAGE_BYTES, 0)
    view = page.read()
    assert view.version >= -1
    assert min(view.step, view.step_begun, view.generation, *view.step_seconds, 0) >= 0
    page.close()


def test_an_agents_word_ages() -> None:
    page = Page.create("worker-0")
    assert page.vouched(now_ns=0) == 0
    page.vouch(3, now_ns=10)
    limit_ns = int(VOUCHED_SECONDS * 1e9)
    assert page.vouched(now_ns=10 + limit_ns) == 3
    assert page.vouched(now_ns=11 + limit_ns) == NOBODY
    page.vouch(4, FOR_EVER_NS)
    assert page.vouched(now_ns=1 << 62) == 4
    page.close()
