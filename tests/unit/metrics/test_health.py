"""Readiness: which dependencies take a process out of service."""

from __future__ import annotations

import pytest

from headgate.metrics.health import Dependency, Readiness

MAIN = Dependency("kafka main", True, True, "connected", is_cluster=True)
SECOND = Dependency("kafka second", True, True, "connected", is_cluster=True)
REDIS = Dependency("redis", True, False, "connected")
SPOOL = Dependency("spool", True, False, "no events wait")
DOWN = {"ok": False}
SPOOLED = {"required": False}  # while the spool takes the cluster's events


@pytest.mark.parametrize(
    ("main", "second", "is_ready"),
    [
        ({}, {}, True),
        ({}, DOWN, True),
        (DOWN, DOWN, False),
        (SPOOLED, DOWN, True),  # main's topics take events, by Kafka
        (SPOOLED | DOWN, DOWN, True),  # ... and by the spool
        (SPOOLED | DOWN, {}, True),
        (SPOOLED, SPOOLED | DOWN, True),
    ],
)
def test_one_cluster_whose_topics_take_events_is_enough(
    main: dict[str, bool], second: dict[str, bool], is_ready: bool
) -> None:
    clusters = (MAIN._replace(**main), SECOND._replace(**second))
    for others in ((), (REDIS, SPOOL)):
        reply = Readiness(False, (*others, *clusters)).reply()
        assert (reply.status == 200) is is_ready
    assert not Readiness(True, clusters).is_ready


def test_dependencies_that_no_event_needs_do_not_stand_in_for_a_cluster() -> None:
    backfill = Dependency("backfill cold", True, False, "connected")
    down = MAIN._replace(ok=False)
    assert not Readiness(False, (down, REDIS, SPOOL, backfill)).is_ready
    assert Readiness(False, (MAIN, REDIS._replace(ok=False), backfill._replace(ok=False))).is_ready
