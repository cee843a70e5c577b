"""A gateway in memory, for tests of programs that send events.

    gateway = FakeGateway()
    with Client(gateway.url, transport=gateway.transport) as client:
        gateway.next(Refuse("overloaded"), Lose(is_written=True))
        client.send("orders", {"order_id": 1})
    assert [record.value for record in gateway.records("orders")] == [{"order_id": 1}]

The gateway speaks HTTP, so the client runs the code that it runs in production.
`gateway.transport` is for `Client` and `AsyncClient`. With `Retry(first_wait_s=0)` no test waits.
"""

from headgate_client.testing.gateway import (
    REASONS,
    FailEvents,
    FakeGateway,
    Fault,
    KeyOf,
    Lose,
    Refuse,
    Succeed,
)
from headgate_client.testing.requests import Record

__all__ = [
    "REASONS",
    "FailEvents",
    "FakeGateway",
    "Fault",
    "KeyOf",
    "Lose",
    "Record",
    "Refuse",
    "Succeed",
]
