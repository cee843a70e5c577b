"""The sweep that answers tickets whose time is up."""

import asyncio

from headgate.ingest.deadlines import REASONS, Deadlines
from headgate.model.outcome import Reason
from headgate.model.publish import Stage, Ticket
from support.process.stack import eventually


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_what_is_due_and_open_expires_in_order() -> None:
    clock, expired = Clock(), []
    deadlines = Deadlines(expired.append, 10.0, clock)
    tickets = [Ticket("orders", "p", str(at), float(at)) for at in range(4)]
    for ticket in tickets:
        deadlines.watch(ticket)
    clock.now = 9.9
    deadlines.sweep()
    assert expired == []
    tickets[1].done = True
    clock.now = 12.0
    deadlines.sweep()
    assert expired == [tickets[0], tickets[2]]
    clock.now = 13.0
    deadlines.sweep()
    assert expired == [tickets[0], tickets[2], tickets[3]]


async def test_it_sweeps_until_it_is_cancelled() -> None:
    clock, expired = Clock(), []
    deadlines = Deadlines(expired.append, 1.0, clock)
    ticket = Ticket("orders", "p", "r", 0.0)
    deadlines.watch(ticket)
    task = asyncio.ensure_future(deadlines.run())
    clock.now = 1.0
    await eventually(lambda: expired == [ticket])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_one_ticket_that_cannot_be_expired_costs_only_itself() -> None:
    clock, expired = Clock(), list[Ticket]()

    def expire(ticket: Ticket) -> None:
        if ticket.request_id == "bad":
            raise ValueError("a bug")
        expired.append(ticket)

    deadlines = Deadlines(expire, 1.0, clock)
    bad, good = Ticket("orders", "p", "bad", 0.0), Ticket("orders", "p", "good", 0.0)
    deadlines.watch(bad)
    deadlines.watch(good)
    task = asyncio.ensure_future(deadlines.run())
    clock.now = 1.0
    await eventually(lambda: expired == [good], 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_each_stage_in_which_an_event_can_wait_has_its_reason_at_the_deadline() -> None:
    assert REASONS.keys() == {*Stage} - {Stage.ENDED}
    for stage, reason in REASONS.items():
        assert (reason is Reason.UNKNOWN) == (stage >= Stage.HANDED), stage
