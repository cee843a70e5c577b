"""Ingest at random: one outcome for each event, order kept, and the budget back to zero."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.publish import Publish, Stage, Ticket
from support.gateway.meters import counted
from support.gateway.room import AWAY, NO_REDIS, REFUSED, UNKNOWN, Room
from support.scale import examples

BODIES = [b'{"id":"%s","v":%d}' % (key, value) for key in (b"a", b"b", b"c") for value in (1, 2)]
BAD = [b"{", b"{}", b'{"id":1.5}', b'{"id":"a","x":"%s"}' % (b"x" * 300)]
partitions = st.integers(0, 2)


class Storm(RuleBasedStateMachine):
    """Any order of requests, verdicts, hand-overs, ends and deadlines."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room(max_events=40, max_bytes=4_000)
        self.tickets: list[Ticket] = []
        self.events: dict[int, int] = {}
        self.posted: dict[int, int] = {}
        self.first_answer: dict[int, list[Outcome]] = {}
        self.arrived: list[Publish] = []

    @rule(
        topic=st.sampled_from(["deals", "orders", "deals", "clicks", "deals", "nowhere"]),
        texts=st.lists(st.sampled_from(BODIES + BODIES[:2] + BAD), min_size=1, max_size=6),
        single=st.booleans(),
        force=st.sampled_from([False, False, False, True]),
    )
    def post(self, topic: str, texts: list[bytes], single: bool, force: bool) -> None:
        if single and texts:
            body, kind = texts[0], b"application/json"
        else:
            body, kind = b"\n".join([b" ", *texts]), b"application/x-ndjson"
        if self.room.admission.take_bytes("p", len(body)) is not None:
            return
        headers = {b"content-type": kind, b"headgate-force": b"true" if force else b"false"}
        ticket = Ticket(topic, "p", "r", 0.0, headers, body)
        self.room.pipeline.take(ticket)
        self.tickets.append(ticket)
        self.events[id(ticket)] = len(ticket.outcomes)
        self.posted[id(ticket)] = 1 if single else len(texts)
        self.arrived.extend(ticket.publishes)

    @rule(refuse=st.booleans(), count=st.integers(1, 5))
    def decide(self, refuse: bool, count: int) -> None:
        for _ in range(count):
            self.room.suppression.decide(NO_REDIS if refuse else None)

    @rule(partition=partitions, limit=st.integers(1, 5))
    def hand_over(self, partition: int, limit: int) -> None:
        self.room.lanes.hand_over(partition, limit)

    @rule(partition=partitions)
    def acknowledge(self, partition: int) -> None:
        self.room.lanes.acknowledge(partition)

    @rule(partition=partitions, failure=st.sampled_from([UNKNOWN, REFUSED, AWAY]))
    def fail(self, partition: int, failure: Failure) -> None:
        self.room.lanes.fail(partition, failure)

    @rule(partition=partitions, refusing=st.booleans())
    def close_lane(self, partition: int, refusing: bool) -> None:
        self.room.lanes.refusing = {partition: AWAY} if refusing else {}

    @rule(which=st.integers(0, 5))
    def expire(self, which: int) -> None:
        open_ones = [ticket for ticket in reversed(self.tickets) if not ticket.done]
        if which < len(open_ones):
            self.room.pipeline.expire(open_ones[which])
            assert open_ones[which].done

    @invariant()
    def the_budget_is_what_is_under_way(self) -> None:
        held = [ticket for ticket in self.tickets if not ticket.done or ticket.open_publishes]
        assert all(ticket.open_publishes >= 0 for ticket in self.tickets)
        assert self.room.admission.events == sum(self.events[id(ticket)] for ticket in held)
        assert self.room.admission.bytes == sum(ticket.body_bytes for ticket in held)

    @invariant()
    def an_answer_stays_as_it_was_given(self) -> None:
        for ticket in self.tickets:
            if ticket.done:
                first = self.first_answer.setdefault(id(ticket), ticket.answered())
                assert first == ticket.answered()
                assert len(first) == len(ticket.outcomes)

    @invariant()
    def each_event_of_an_ended_request_is_accounted_once(self) -> None:
        ended = sum(self.accounted(ticket) for ticket in self.tickets if ticket.done)
        assert sum(counted(self.room.meter, "events").values()) == ended

    def accounted(self, ticket: Ticket) -> int:
        """Return the events of a request in the metrics: all of a batch without room for it."""
        (first, *others) = ticket.outcomes
        is_refused = first.failure is not None and first.failure.reason is Reason.OVERLOADED
        return self.posted[id(ticket)] if is_refused and not others else len(ticket.outcomes)

    def teardown(self) -> None:
        self.room.lanes.refusing = {}
        self.room.run()
        for partition in list(self.room.lanes.handed):
            self.room.lanes.acknowledge(partition)
        self.room.run()
        assert all(ticket.done and ticket.open_publishes == 0 for ticket in self.tickets)
        assert (self.room.admission.bytes, self.room.admission.events) == (0, 0)
        self.the_budget_is_what_is_under_way()
        self.an_answer_stays_as_it_was_given()
        self.each_event_of_an_ended_request_is_accounted_once()
        assert not any(self.room.suppression.in_flight.values())  # each reservation has an end
        self.what_was_answered_is_true()
        self.records_are_finished()
        self.order_is_kept()

    def what_was_answered_is_true(self) -> None:
        logs = self.room.lanes.logs
        logged = {id(publish) for log in logs.values() for publish in log}
        assert sum(map(len, logs.values())) == len(logged)
        for publish in self.arrived:
            outcome = publish.ticket.outcomes[publish.index]
            if publish.dropped or outcome.name is OutcomeName.REJECTED:
                assert id(publish) not in logged
            elif outcome.name in (OutcomeName.PUBLISHED, OutcomeName.UNCHANGED):
                found = logs[outcome.partition][outcome.offset].record
                assert (found.key, found.value) == (publish.record.key, publish.record.value)
                assert outcome.records == (id(publish) in logged)
            assert publish.stage is Stage.ENDED or publish.dropped

    def records_are_finished(self) -> None:
        """Each has its own id, once, and the answer of its own event tells that id."""
        found: list[bytes] = []
        for publish in (publish for log in self.room.lanes.logs.values() for publish in log):
            names = [name for name, _ in publish.record.headers]
            assert names == ["content-type", "hg-event-id", "hg-producer", "hg-received-at"]
            found.append(publish.record.headers[1][1])
            outcome = publish.ticket.outcomes[publish.index]
            if outcome.name is OutcomeName.PUBLISHED:
                assert outcome.event_id.encode() == found[-1]
        assert len(found) == len(set(found))

    def order_is_kept(self) -> None:
        places = {id(publish): place for place, publish in enumerate(self.arrived)}
        for log in self.room.lanes.logs.values():
            by_key: dict[tuple[str, bytes | None], list[int]] = {}
            for publish in log:
                key = (publish.record.topic, publish.record.key)
                by_key.setdefault(key, []).append(places[id(publish)])
            assert all(order == sorted(order) for order in by_key.values())


Storm.TestCase.settings = settings(
    max_examples=examples(120), stateful_step_count=50, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
TestStorm = Storm.TestCase
