"""How far a consumer got."""

from everstep_bus.progress import Progress


def test_nothing_is_known_before_the_first_delivery() -> None:
    assert Progress().resume_after is None


def test_a_lost_durable_resumes_before_the_oldest_that_is_open() -> None:
    progress = Progress()
    for sequence in (4, 5, 9):
        progress.taken(sequence)
    progress.done(9)
    progress.done(4)
    assert progress.resume_after == 4


def test_a_lost_durable_resumes_behind_the_newest_when_nothing_is_open() -> None:
    progress = Progress()
    progress.taken(9)
    progress.done(9)
    progress.taken(4)
    progress.done(4)
    assert progress.resume_after == 9


def test_a_lost_stream_starts_from_its_first_message() -> None:
    progress = Progress()
    progress.taken(9)
    progress.forget()
    assert progress.resume_after == 0
