"""One producer's flood fills its part of the in-flight budget, and no more."""

from headgate.config.settings import ProducerSettings
from headgate.ingest.admission import InFlightLimit, in_flight_limits
from headgate.model.outcome import Reason
from headgate.model.publish import Ticket
from support.gateway.room import Room

BODY = b'{"id":"a"}'


def post(room: Room, producer: str) -> Ticket:
    assert room.admission.take_bytes(producer, len(BODY)) is None
    headers = {b"content-type": b"application/json"}
    ticket = Ticket("orders", producer, "r", 0.0, headers, BODY)
    room.pipeline.take(ticket)
    return ticket


def test_while_kafka_stands_still_a_flood_is_refused_and_the_others_are_not() -> None:
    room = Room(max_events=100)
    rest = [post(room, "rest")]
    flood = [post(room, "flood") for _ in range(200)]
    refused = [ticket for ticket in flood if ticket.done]
    assert len(refused) == 200 - 79
    (outcome,) = refused[0].answered()
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.OVERLOADED
    assert outcome.failure.figures == {"limit": "in_flight_max_events", "producer": "flood"}
    rest += [post(room, "rest") for _ in range(10)]
    assert not any(ticket.done for ticket in rest)
    room.run()
    assert all(ticket.done and not ticket.answered()[0].failure for ticket in rest)
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    assert not post(room, "flood").done, "there is room again"


def test_limits_of_producers_are_split_over_workers() -> None:
    producers = {
        "none": ProducerSettings(),
        "few": ProducerSettings(max_in_flight_events=3),
        "both": ProducerSettings(max_in_flight_events=100, max_in_flight_bytes=4000),
    }
    assert in_flight_limits(producers, 4) == {
        "few": InFlightLimit(None, 1),
        "both": InFlightLimit(1000, 25),
    }
