"""Skew audits as they are published: of topics with a known fault, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import orjson

from headgate.audits.results import MAX_EARLIER, with_earlier
from headgate_spark.audit.predictions import candidates
from headgate_spark.audit.result import document
from support.scenarios import skew_world

Fault = Callable[[], skew_world.Dataset]


@cache
def _result(fault: Fault) -> dict[str, Any]:
    dataset = fault()
    figures = skew_world.figures_of(dataset, candidates(dataset.partitions))
    found: dict[str, Any] = document([figures], 0)["topics"][0]
    return found


def made_at(number: int) -> str:
    """When the audit of this number, from 0, was made."""
    return f"2026-01-31T{number:02}:00:00.000Z"


def audited(topic: str, *faults: Fault) -> bytes:
    """The newest of as many audits as there are faults, oldest first."""
    newest: dict[str, Any] | None = None
    for number, fault in enumerate(faults):
        made = {**_result(fault), "topic": topic, "generated_at": made_at(number)}
        newest = with_earlier(made, newest)
    return orjson.dumps(newest)


def some() -> dict[str, bytes]:
    """Topics that became worse and better, a new one, and one that was not audited again."""
    uniform, bomb, zipf = skew_world.uniform, skew_world.data_bomb, skew_world.zipf
    return {
        "worse": audited("worse", zipf, uniform, bomb),
        "better": audited("better", bomb, bomb, uniform),
        "new": audited("new", uniform),
        "gone": audited("gone", zipf),
    }


def many(topics: int) -> dict[str, bytes]:
    """As much as there can be: every topic with all the earlier ones that are kept."""
    faults = [skew_world.data_bomb, skew_world.uniform, skew_world.zipf, skew_world.clumped]
    kinds = []
    for kind in range(len(faults)):
        order = [faults[(kind + number) % len(faults)] for number in range(MAX_EARLIER + 1)]
        kinds.append(audited("topic-", *order))
    names = [f"topic-{number:03}" for number in range(topics)]
    return {
        name: kinds[number % len(kinds)].replace(b'"topic-"', f'"{name}"'.encode())
        for number, name in enumerate(names)
    }
