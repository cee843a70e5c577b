"""The model of suppression v3: no promise is broken, and every rule it has is there for a reason.

The runs here are small, and those of more than a second are `full`: the model changes seldom.
`tests/models/check_suppression_changes.py` makes the large ones.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.suppression_changes import (
    A2,
    CANONICAL,
    OLD,
    PASS,
    RAW,
    A,
    B,
    Config,
    Setup,
    explore,
)

R, C, OFF, R1 = Config(RAW), Config(CANONICAL), Config(PASS), Config(RAW, 1)
# One gateway is off, and may change; the posts are given, everything else is free.
PASSING = Setup(configs=(R, OFF), starts=(1, 0), changes=1, history=((0, B), (1, A), (1, A)))
TWO_KEYS = Setup(configs=(R, R1), starts=(0, 1), changes=1, history=((0, B), (1, A), (1, A)))
BACK = Setup(configs=(R, OFF), changes=2)
SPOOL = Setup(spooled=1)
GROWTH = Setup(growth=1, history=((0, B), (0, A), (0, A)))
BACK_AND_FORTH = Setup(
    configs=(R, C), contents=(A, A2), changes=2, history=((0, A2), (1, A2), (0, A))
)


@pytest.mark.parametrize(
    ("setup", "states", "kinds"),
    [
        (Setup(), 1_000, {"claims: unchanged"}),
        (Setup(configs=(R, C), contents=(A, A2), changes=1), 4_000, {"claims: unchanged"}),
        (replace(BACK, posts=2, changes=1), 1_000, {"claims: publish in quarantine"}),
        (replace(PASSING, posts=3), 500, {"quarantine ends", "claims: unchanged"}),
        pytest.param(
            replace(PASSING, deaths=1),
            5_000,
            {"announcement of a dead process ends"},
            marks=pytest.mark.full,
        ),
        pytest.param(
            replace(PASSING, restarts=1), 5_000, {"Redis restarts empty"}, marks=pytest.mark.full
        ),
        pytest.param(
            replace(PASSING, cuts=1), 5_000, {"claims: unchanged"}, marks=pytest.mark.full
        ),
        pytest.param(replace(PASSING, unknown=1), 2_000, {"lands late"}, marks=pytest.mark.full),
        (Setup(growth=1, posts=2), 1_000, {"claims: behind"}),
        pytest.param(
            replace(GROWTH, unknown=1, room=1),
            2_000,
            {"lands late", "claims: publish, anonymous"},
            marks=pytest.mark.full,
        ),
        pytest.param(
            TWO_KEYS, 2_000, {"quarantine ends", "claims: unchanged"}, marks=pytest.mark.full
        ),
        (Setup(unknown=1), 5_000, {"lands late", "claims: unchanged"}),
        (Setup(room=1), 2_000, {"claims: publish, anonymous", "claims: unchanged"}),
        (Setup(room=1, deaths=1, posts=2), 400, {"lands after its process died"}),
        (replace(SPOOL, history=((0, B), (1, A), (0, A))), 500, {"is spooled", "drains"}),
        pytest.param(SPOOL, 10_000, {"drains", "claims: unchanged"}, marks=pytest.mark.full),
        pytest.param(replace(SPOOL, deaths=1, posts=2), 1_000, {"drains"}, marks=pytest.mark.full),
        (Setup(sequential=True, posts=4), 90, {"claims: unchanged"}),
        (Setup(sequential=True, posts=4, configs=(C,)), 90, {"claims: unchanged"}),
    ],
)
def test_no_promise_is_broken(setup: Setup, states: int, kinds: set[str]) -> None:
    result = explore(setup, 12_000)
    assert not result.broken, "\n".join(result.trace)
    assert result.states >= states
    assert kinds <= result.kinds


@pytest.mark.parametrize(
    ("rules", "setup", "broken"),
    [
        (("announce_nonce",), replace(BACK, history=((0, B), (0, A))), "S1"),
        (("announce_quarantine",), PASSING, "S1"),
        (("announce", "force_late"), PASSING, "S1"),
        (("announce", "clear_forced"), PASSING, "S1"),
        (("renew",), PASSING, "S1"),
        pytest.param(("renew_unknown",), replace(PASSING, unknown=1), "S1", marks=pytest.mark.full),
        (("force_late",), replace(BACK, changes=1, posts=2), "S1"),
        pytest.param(
            ("register",),
            replace(BACK, history=((1, B), (0, A), (0, A))),
            "S1",
            marks=pytest.mark.full,
        ),
        (("growth_clears",), GROWTH, "S1"),
        (("growth_keeps_tokens",), GROWTH, "S1"),
        (("settle_lower_clears",), replace(GROWTH, history=((0, B), (0, A), (0, B))), "S1"),
        (("settle_lower_untrusts",), GROWTH, "S1"),
        (("behind",), Setup(growth=1), "K"),
        (("follow_same_count",), Setup(growth=1, follow=True, posts=2), "K2"),
        pytest.param(("fence",), Setup(unknown=1), "S1", marks=pytest.mark.full),
        (("anonymous",), Setup(room=1), "S1"),
        (("key_rule",), replace(TWO_KEYS, starts=(0, 0)), "S1"),
        (("old_rule_announces",), TWO_KEYS, "S1"),
        (("keyed_digest",), BACK_AND_FORTH, "S1"),
        (("spool_holds",), SPOOL, "P"),
    ],
)
def test_each_rule_is_needed(rules: tuple[str, ...], setup: Setup, broken: str) -> None:
    result = explore(setup.without(*rules), 60_000)
    assert result.broken.startswith(broken + ":")
    assert result.trace[-2].split()[1] in ("claims:", "claims", "lands,")


@pytest.mark.parametrize(
    ("setup", "steps"),
    [
        (Setup(configs=(R, OFF), changes=1), 5),
        (Setup(configs=(R, C), changes=1), 6),
        (Setup(growth=1, promises=("S1",)), 7),
        (Setup(unknown=1), 11),
    ],
)
def test_the_old_way_broke_its_promise(setup: Setup, steps: int) -> None:
    result = explore(replace(setup, rules=OLD), 40_000)
    assert result.broken.startswith("S1:")
    assert len(result.trace) - 1 <= steps
