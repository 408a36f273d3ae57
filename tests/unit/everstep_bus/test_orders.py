"""Which orders are news."""

from everstep_bus.orders import OrderView
from support.messages import order


def heard(*orders: object) -> list[bool]:
    view = OrderView()
    return [view.is_news(one) for one in orders]  # type: ignore[arg-type]  # orders


def test_each_newer_order_is_news_once() -> None:
    assert heard(order(1), order(1), order(2), order(2)) == [True, False, True, False]


def test_an_older_generation_is_no_news() -> None:
    assert heard(order(2), order(1)) == [True, False]


def test_r9_another_verdict_of_the_same_generation_is_news() -> None:
    assert heard(order(2, "a"), order(2, "b")) == [True, True]


def test_a_job_made_anew_under_the_same_name_starts_over() -> None:
    other = order(1).model_copy(update={"job_uid": "uid-2"})
    assert heard(order(7), other) == [True, True]
