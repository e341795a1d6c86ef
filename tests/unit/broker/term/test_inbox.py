"""Who comes first, and what is said once."""

from klamm.broker.term.inbox import Inbox
from klamm.broker.term.observing import BrokersHint, MarkersHint, TopicHint, TopicsHint
from klamm.controller import events
from klamm.model.names import BrokerId


async def taken(inbox: Inbox) -> list[object]:
    return [(await inbox.get()).content for _ in range(len(inbox))]


async def test_a_lost_broker_comes_before_everything_and_timers_come_last() -> None:
    inbox = Inbox()
    shutdown = events.ShutdownAsked(BrokerId(1))
    isr = events.IsrChangesAsked(broker=BrokerId(1), broker_epoch=1, changes=())
    for content in (events.RetryDue(), TopicsHint(), isr, shutdown, BrokersHint()):
        inbox.put(content)
    assert await taken(inbox) == [BrokersHint(), shutdown, isr, TopicsHint(), events.RetryDue()]


async def test_within_a_rank_the_order_is_that_of_arrival() -> None:
    inbox = Inbox()
    for content in (MarkersHint(), TopicsHint(), TopicHint("T")):
        inbox.put(content)
    assert await taken(inbox) == [MarkersHint(), TopicsHint(), TopicHint("T")]


async def test_a_hint_that_waits_is_not_queued_again_but_one_that_was_taken_is() -> None:
    inbox = Inbox()
    for _ in range(3):
        inbox.put(TopicHint("T"))
        inbox.put(TopicHint("U"))
    assert await taken(inbox) == [TopicHint("T"), TopicHint("U")]
    inbox.put(TopicHint("T"))
    assert await taken(inbox) == [TopicHint("T")]


async def test_events_are_never_dropped() -> None:
    inbox = Inbox()
    for _ in range(2):
        inbox.put(events.RetryDue())
    assert len(inbox) == 2


async def test_what_is_drained_is_returned_for_somebody_to_refuse() -> None:
    inbox = Inbox()
    inbox.put(TopicsHint())
    inbox.put(events.RetryDue())
    assert [letter.content for letter in inbox.drain()] == [TopicsHint(), events.RetryDue()]
    assert len(inbox) == 0


async def test_only_a_lost_or_leaving_broker_is_urgent() -> None:
    inbox = Inbox()
    assert inbox.take_urgent() is None
    inbox.put(TopicsHint())
    assert inbox.take_urgent() is None
    inbox.put(BrokersHint())
    urgent = inbox.take_urgent()
    assert urgent is not None
    assert urgent.content == BrokersHint()
    assert await taken(inbox) == [TopicsHint()]
