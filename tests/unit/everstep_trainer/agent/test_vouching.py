"""An agent vouches for its order while it can know that it is the newest."""

from everstep_trainer.agent.effects import AskForOrder, Gossip, Vouch
from everstep_trainer.agent.inputs import OrderConfirmed
from everstep_trainer.link import Hello
from everstep_trainer.page import NOBODY
from support.agent_core import Core, make_order

FROZEN_SECONDS = 10.0


def vouched(core: Core) -> int:
    """What the pages say by now."""
    return core.done(Vouch)[-1].generation


def thawed(core: Core) -> Core:
    """The same agent after it stood still for a while, and ticked once."""
    core.seconds += FROZEN_SECONDS
    core.tick()
    return core


def test_it_vouches_for_the_newest_order_that_lists_it() -> None:
    core = Core().warm()
    assert vouched(core) == 0
    core.run(make_order(1))
    assert vouched(core) == 1
    core.order(make_order(2, (1,)))
    assert vouched(core) == 0


def test_the_page_is_written_before_the_workers_are_told() -> None:
    core = Core().warm()
    effects = core.order(make_order(1))
    kinds = [type(effect).__name__ for effect in effects]
    assert kinds.index("Vouch") < kinds.index("SendToWorker")


def test_its_word_is_renewed_at_every_tick() -> None:
    core = Core().warm().run(make_order(1))
    before = len(core.done(Vouch))
    core.pass_seconds(2.0)
    assert len(core.done(Vouch)) - before == 8


def test_r24_after_it_stood_still_it_vouches_for_nothing_before_its_order_is_confirmed() -> None:
    core = thawed(Core().warm().run(make_order(1)))
    assert vouched(core) == NOBODY
    (asked,) = core.done(AskForOrder)
    core.hear(OrderConfirmed(asked.doubt))
    assert vouched(core) == 1


def test_r24_what_it_hears_before_its_first_tick_after_it_stood_still_renews_nothing() -> None:
    core = Core().warm().run(make_order(1))
    core.seconds += FROZEN_SECONDS
    core.say(Hello(local_rank=0, pid=1))
    assert vouched(core) == NOBODY
    core.tick()
    (asked,) = core.done(AskForOrder)
    core.hear(OrderConfirmed(asked.doubt))
    assert vouched(core) == 1


def test_r24_an_answer_to_a_question_before_it_stood_still_confirms_nothing() -> None:
    core = thawed(thawed(Core().warm().run(make_order(1))))
    first, second = core.done(AskForOrder)
    core.hear(OrderConfirmed(first.doubt))
    assert vouched(core) == NOBODY
    core.hear(OrderConfirmed(second.doubt))
    assert vouched(core) == 1


def test_it_asks_again_until_somebody_answers() -> None:
    core = thawed(Core().warm().run(make_order(1)))
    core.pass_seconds(1.0)
    assert len(core.done(AskForOrder)) == 5


def test_r9_without_the_bus_peers_confirm_the_order() -> None:
    core = Core().warm().run(make_order(1))
    core.bus_up = False
    thawed(core)
    offered = [gossip for gossip in core.done(Gossip) if gossip.doubt is not None]
    assert vouched(core) == NOBODY
    core.hear(OrderConfirmed(offered[-1].doubt or 0))
    assert vouched(core) == 1


def test_a_member_alone_goes_on_when_the_bus_is_away() -> None:
    core = Core().warm().run(make_order(1, (0,)))
    core.bus_up = False
    assert vouched(thawed(core)) == 1


def test_a_newer_order_that_leaves_it_out_is_obeyed_when_it_hears_of_it() -> None:
    core = thawed(Core().warm().run(make_order(1)))
    (asked,) = core.done(AskForOrder)
    core.order(make_order(2, (1,)))
    core.hear(OrderConfirmed(asked.doubt))
    assert vouched(core) == 0
