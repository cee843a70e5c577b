"""Prints what the model of suppression v3 finds: `python check_suppression_changes.py [states]`.

First every fault set with all rules, then one rule out at a time, then the old way. The number
is the limit of states of each run. With 300000 it takes about twenty minutes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from models.suppression_changes import (
    A2,
    ALL,
    CANONICAL,
    OLD,
    PASS,
    RAW,
    TEXT,
    A,
    B,
    Config,
    Rules,
    Setup,
    explore,
)

R, C, O, R1 = Config(RAW), Config(CANONICAL), Config(PASS), Config(RAW, 1)  # noqa: E741
OFF = Setup(configs=(R, O), starts=(1, 0), changes=1)  # one gateway is off at first
KEYS = Setup(configs=(R, R1), changes=1)
TWO_KEYS = Setup(configs=(R, R1), starts=(0, 1), changes=1)  # two key rules at first
GROWTH = Setup(growth=1)
CROWD = Setup(room=1)
SPOOL = Setup(spooled=1)

FAULT_SETS: dict[str, Setup] = {
    "none": Setup(),
    "none, 4 posts": Setup(posts=4),
    "equal events follow": Setup(follow=True),
    "raw and canonical, 2 changes": Setup(configs=(R, C), contents=(A, A2), changes=2),
    "raw and canonical, A and B, 2 changes": Setup(configs=(R, C), changes=2),
    "raw to off and back, 2 changes": Setup(configs=(R, O), changes=2),
    "raw, canonical, off, 1 change": Setup(configs=(R, C, O), changes=1),
    "off at first, 1 change": OFF,
    "off, a process dies": replace(OFF, deaths=1),
    "off, Redis restarts empty": replace(OFF, restarts=1),
    "off, cut off": replace(OFF, cuts=1),
    "off, outcome unknown, late": replace(OFF, unknown=1),
    "off, crowd": replace(OFF, room=1),
    "off, growth": replace(OFF, growth=1, changes=0),
    "off, growth, 1 change, 2 posts": replace(OFF, growth=1, posts=2),
    "growth": GROWTH,
    "growth, equal events follow": replace(GROWTH, follow=True),
    "growth, a process dies": replace(GROWTH, deaths=1),
    "growth, Redis restarts empty": replace(GROWTH, restarts=1),
    "growth, cut off": replace(GROWTH, cuts=1),
    "growth, outcome unknown, late": replace(GROWTH, unknown=1),
    "growth, crowd": replace(GROWTH, room=1),
    "growth, crowd, outcome unknown, late": replace(GROWTH, room=1, unknown=1),
    "key rule, 1 change": KEYS,
    "key rule, two at first, 1 change": TWO_KEYS,
    "key rule, a process dies": replace(KEYS, deaths=1),
    "key rule, outcome unknown, late": replace(KEYS, unknown=1),
    "key rule, Redis restarts empty, 2 posts": replace(KEYS, restarts=1, posts=2),
    "key rule, cut off, 2 posts": replace(KEYS, cuts=1, posts=2),
    "key rule, growth, 2 posts": replace(KEYS, growth=1, posts=2),
    "key rule, off, 2 posts": Setup(configs=(R, R1, O), starts=(2, 0), changes=2, posts=2),
    "outcome unknown, late": Setup(unknown=1),
    "outcome unknown, a process dies": Setup(unknown=1, deaths=1),
    "crowd, 4 posts": replace(CROWD, posts=4),
    "crowd, outcome unknown, late": replace(CROWD, unknown=1),
    "crowd, a process dies": replace(CROWD, deaths=1),
    "crowd, Redis restarts empty": replace(CROWD, restarts=1),
    "crowd, cut off": replace(CROWD, cuts=1),
    "spool": SPOOL,
    "spool, 2 records": replace(SPOOL, spooled=2),
    "spool, equal events follow": replace(SPOOL, follow=True),
    "spool, a process dies": replace(SPOOL, deaths=1),
    "spool, Redis restarts empty": replace(SPOOL, restarts=1),
    "spool, cut off": replace(SPOOL, cuts=1),
    "spool, outcome unknown, late": replace(SPOOL, unknown=1),
    "spool, growth": replace(SPOOL, growth=1),
    "spool, off, 1 change": replace(OFF, spooled=1),
    "benefit, raw, 4 posts": Setup(sequential=True, posts=4),
    "benefit, canonical, 4 posts": Setup(
        sequential=True, configs=(C,), contents=(A, B, A2), posts=4
    ),
    "benefit, crowd, 4 posts": replace(CROWD, sequential=True, posts=4),
}

# Rules taken out, and where that shows. None shows where the protocol does not need the rule.
ONE_OUT: list[tuple[str, tuple[str, ...], Setup]] = [
    ("fresh nonce at the announcement", ("announce_nonce",), Setup(configs=(R, O), changes=2)),
    ("quarantine after it", ("announce_quarantine",), OFF),
    ("announcement, events pass all the same", ("announce", "force_late"), OFF),
    ("announcement, every event is forced", ("announce",), OFF),
    ("that, and CLEAR", ("announce", "clear_forced"), OFF),
    ("CLEAR of a forced event", ("clear_forced",), OFF),
    ("CLEAR of a forced event, crowd", ("clear_forced",), replace(OFF, room=1)),
    ("renewal while a record is under way", ("renew",), OFF),
    ("renewal while one is unknown", ("renew_unknown",), replace(OFF, unknown=1)),
    (
        "force before the announcement is in force",
        ("force_late",),
        Setup(configs=(R, O), changes=1),
    ),
    ("register under a fresh nonce", ("register",), Setup(configs=(R, O), changes=2)),
    ("no trust in quarantine", ("quarantine_untrusts",), Setup(configs=(R, O), changes=2)),
    ("e.n != count clears h", ("growth_clears",), GROWTH),
    ("tokens stay at growth", ("growth_keeps_tokens",), GROWTH),
    ("SETTLE with n < e.n clears", ("settle_lower_clears",), GROWTH),
    ("... and trusts nobody", ("settle_lower_untrusts",), GROWTH),
    ("BEHIND", ("behind",), GROWTH),
    ("BEHIND, only S1 asked", ("behind",), replace(GROWTH, promises=("S1",))),
    ("follower of the same count", ("follow_same_count",), replace(GROWTH, follow=True)),
    (
        "follower of the same count, S1 and K",
        ("follow_same_count",),
        replace(GROWTH, follow=True, promises=("S1", "K")),
    ),
    ("fence", ("fence",), Setup(unknown=1)),
    ("anonymous token", ("anonymous",), CROWD),
    ("key rule in the incarnation", ("key_rule",), KEYS),
    ("fresh nonce at another key rule", ("key_rule_nonce",), replace(KEYS, changes=2)),
    ("an old rule's record announces", ("old_rule_announces",), TWO_KEYS),
    ("announcement while something is spooled", ("spool_holds",), SPOOL),
    ("events behind it pass", ("spool_passes",), replace(SPOOL, posts=4)),
    ("drained while the announcement holds", ("spool_late",), replace(SPOOL, deaths=1)),
    (
        "digest keyed by the fingerprint",
        ("keyed_digest",),
        Setup(configs=(R, C), contents=(A, A2), changes=2),
    ),
]

OLD_WAY: dict[str, Setup] = {
    "off between": Setup(OLD, configs=(R, O), changes=1),
    "canonical between": Setup(OLD, configs=(R, C), changes=1),
    "growth": Setup(OLD, growth=1, promises=("S1",)),
    "a late record": Setup(OLD, unknown=1),
}


def show(name: str, setup: Setup, rules: Rules | None, limit: int) -> None:
    began = time.monotonic()
    result = explore(replace(setup, rules=rules) if rules else setup, limit)
    end = "complete" if result.complete else "cut short"
    if result.broken:
        end = f"{len(result.trace) - 1} steps, {result.broken}"
    seconds = time.monotonic() - began
    sys.stdout.write(f"| {name} | {result.states:,} | {seconds:.0f} s | {end} |\n")
    if result.trace:
        sys.stdout.write("    " + "; ".join(result.trace[:-1]) + "\n")
    sys.stdout.flush()


def main(limit: int) -> None:
    sys.stdout.write("## All rules\n")
    for name, setup in FAULT_SETS.items():
        show(name, setup, ALL, limit)
    sys.stdout.write("## The text as it was drafted\n")
    for name, setup in (("growth", GROWTH), ("off, unknown", replace(OFF, unknown=1))):
        show(name, setup, TEXT, limit)
    show("two key rules", TWO_KEYS, TEXT, limit)
    sys.stdout.write("## One rule out\n")
    for name, out, setup in ONE_OUT:
        show(name, setup, ALL.without(*out), limit)
    sys.stdout.write("## The old way\n")
    for name, setup in OLD_WAY.items():
        show(name, setup, None, limit)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
