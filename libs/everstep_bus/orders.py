"""Which of the orders that a subscription or a resync finds are news to whoever listens."""

from everstep_contract.orders import Order


class OrderView:
    """What was yielded so far.

    Another verdict of the same generation is news: its receiver refuses and reports it (R9).
    """

    def __init__(self) -> None:
        self._newest: Order | None = None

    def is_news(self, order: Order) -> bool:
        """Whether to yield it; says yes at most once for each order."""
        newest = self._newest
        if newest is not None:
            same_job = order.job_uid == newest.job_uid
            if order == newest or (same_job and order.generation < newest.generation):
                return False
        self._newest = order
        return True
