"""Train without an agent: the same script under plain ``python``, as a job of one worker.

The process gives itself the one order there will be. Its group is a real one, so a script that is
debugged this way differs in nothing but that no failure is healed.
"""

from datetime import timedelta
from typing import Final

from everstep_contract.identity import Endpoint, JobKey
from torch._C._distributed_c10d import TCPStore

from everstep_trainer.library.orders import Orders
from everstep_trainer.link import Assignment, ToAgent
from everstep_trainer.page import FOR_EVER_NS, Page

_GENERATION: Final = 1
_ADDRESS: Final = "127.0.0.1"
_TIMEOUT: Final = timedelta(seconds=30)


class OwnAgent:
    """What an agent gives to a worker, made in the worker itself. Keep it: it hosts the store."""

    def __init__(self) -> None:
        self.page = Page.create("alone")
        self.page.vouch(_GENERATION, FOR_EVER_NS)
        self.orders = Orders()
        self._store = TCPStore(
            _ADDRESS, 0, is_master=True, timeout=_TIMEOUT, wait_for_workers=False
        )
        self.orders.put(self._order())

    def hear(self, message: ToAgent) -> None:
        """What a worker tells its agent; nobody else needs to know."""

    def _order(self) -> Assignment:
        return Assignment(
            job=JobKey(namespace="default", name="alone"),
            job_uid="alone",
            generation=_GENERATION,
            verdict_id="alone",
            rank=0,
            world_size=1,
            local_rank=0,
            local_world_size=1,
            member_index=0,
            members=("alone",),
            store=Endpoint(host=_ADDRESS, port=self._store.port),
            store_prefix=f"g{_GENERATION}-alone",
            form_seconds=_TIMEOUT.total_seconds(),
            construct_seconds=_TIMEOUT.total_seconds(),
        )
