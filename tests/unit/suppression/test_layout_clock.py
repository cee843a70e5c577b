"""What an only server says is compared by its own clock: a slow call raises no doubt."""

from __future__ import annotations

from headgate.suppression.rules import Agreement, LayoutReply, layout_spans

NOW = 1_790_000_000_000  # Redis' clock, ms


def told(count: int) -> Agreement:
    """The first call took half a second: the server was born within it."""
    agreement = Agreement(count, layout_spans(1.0, 60_000.0))
    agreement.apply_reply(0, 100.0, 100.5, LayoutReply(NOW, NOW, False))
    return agreement


def test_a_topic_born_behind_an_only_server_is_believed() -> None:
    agreement = told(1)
    assert agreement.clock_s == 100.5 - NOW / 1000
    born_s = (NOW + 1) / 1000 + agreement.clock_s
    assert agreement.believes(born_s, 100.6)
    assert not agreement.believes(born_s - 2.0, 100.6)


def test_of_several_servers_each_has_its_clock() -> None:
    assert told(2).clock_s is None
