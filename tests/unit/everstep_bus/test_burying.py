"""Dead letters of readers that have nobody to report a failure to."""

from everstep_bus.burying import bury
from everstep_bus.delivery import Delivery
from everstep_bus.errors import TransientBusError
from everstep_bus.timing import BURIALS
from everstep_contract.dead import DeadLetter
from support.messages import AT
from support.virtual_time import in_virtual_time

DELIVERY = Delivery("everstep.x", None, b"?", 7)


class Publisher:
    """Fails so many times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.ids: list[str] = []

    async def __call__(self, letter: DeadLetter, letter_id: str) -> None:
        self.ids.append(letter_id)
        if len(self.ids) <= self.failures:
            raise TransientBusError("not now")


@in_virtual_time
async def test_a_letter_is_published_under_one_id_until_it_is_acknowledged() -> None:
    publish = Publisher(failures=3)
    await bury(DELIVERY, "orders", "why", at=AT, publish=publish)
    assert len(publish.ids) == 4
    assert len(set(publish.ids)) == 1


@in_virtual_time
async def test_a_letter_that_cannot_be_published_does_not_fail_its_reader() -> None:
    publish = Publisher(failures=100)
    await bury(DELIVERY, "orders", "why", at=AT, publish=publish)
    assert len(publish.ids) == BURIALS
