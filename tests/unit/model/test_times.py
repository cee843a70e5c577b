"""An outage begins once and ends once."""

from __future__ import annotations

from headgate.model.times import Outage


def test_it_begins_once_and_tells_its_length_once() -> None:
    now = [10.0]
    outage = Outage(lambda: now[0])
    assert outage.ends() is None
    assert outage.begins()
    now[0] = 12.0
    assert not outage.begins(), "it goes on"
    now[0] = 13.5
    assert outage.ends() == 3.5
    assert outage.ends() is None
    assert outage.begins()
    assert outage.ends() == 0.0
