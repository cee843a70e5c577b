"""What the parent makes of its workers' answers, with workers that only exist here."""

import signal
import time
from typing import Any, cast

import msgspec
import pytest

from headgate.config.backend_settings import SpoolSettings
from headgate.config.settings import AdmissionSettings, Settings
from headgate.metrics.health import Dependency, Readiness
from headgate.metrics.meter import Labels, Meter
from headgate.metrics.snapshot import Snapshot
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.suppression_states import AWAY, ON, QUARANTINE, TopicSuppression
from headgate.model.times import Outage
from headgate.supervisor.control import WorkerState, WorkerUnreachableError
from headgate.supervisor.installation_log import InstallationLog
from headgate.supervisor.overview import Overview, WorkerProcess

READY = Readiness(False, (Dependency("kafka main", True, True, "connected", is_cluster=True),))


class StandIn:
    """A `WorkerProcess` and its client in one. gone: it ends while it is being read."""

    def __init__(self, index: int, readiness: Readiness = READY) -> None:
        self.index, self.pid = index, 100 + index
        self.client: StandIn | None = self
        self.answered, self.started, self.last_answer = False, 1.0, 0.0
        self.outage = Outage(time.monotonic)
        self.signals: list[int] = []
        self.meter = Meter(Labels({"shop"}, {"orders"}.__contains__), time.time)
        self.readiness = readiness
        self.is_silent = self.ends_meanwhile = False
        self.failure: Failure | None = None
        self.suppression: dict[str, TopicSuppression] = {}

    def signal(self, number: int) -> None:
        self.signals.append(number)

    async def snapshot(self, with_details: bool) -> Snapshot:
        if self.is_silent:
            raise WorkerUnreachableError("silent")
        if self.ends_meanwhile:
            self.pid = None  # type: ignore[assignment]
        return self.meter.collect(with_details)

    async def state(self) -> WorkerState:
        return WorkerState(self.readiness, (), self.suppression)

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        if self.is_silent:
            raise WorkerUnreachableError("silent")
        return self.failure


def overview(*workers: StandIn) -> Overview:
    built = Overview(Settings(), InstallationLog(None))
    built.workers = [cast("WorkerProcess", each) for each in workers]
    return built


def events(seen: Overview) -> float:
    return sum(seen.figures.total().counters.get("headgate_events_total", {}).values())


def posted(worker: StandIn) -> StandIn:
    worker.meter.account("shop", "orders", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")], [1])
    return worker


async def test_nothing_is_ready_before_a_worker_answers() -> None:
    seen = overview(StandIn(0))
    assert not seen.health().is_ready
    await seen.refresh()
    assert seen.health().is_ready
    assert seen.health().status == "ready"


def test_the_limits_are_shown_that_the_load_is_a_share_of() -> None:
    admission = AdmissionSettings(in_flight_max_bytes=4096, in_flight_max_events=7)
    spool = SpoolSettings(path="/var/lib/headgate/spool", max_bytes=2_097_152)

    def shown(settings: Settings) -> dict[str, float]:
        gauges = Overview(settings, InstallationLog(None)).figures.total().gauges
        return {name: rows[()] for name, rows in gauges.items() if "_limit_" in name}

    limits = {"headgate_in_flight_limit_bytes": 4096, "headgate_in_flight_limit_events": 7}
    assert shown(Settings(admission=admission)) == limits
    limits["headgate_spool_limit_bytes"] = 2_097_152
    assert shown(Settings(admission=admission, spool=spool)) == limits


async def test_the_worst_state_that_any_worker_sees_is_shown() -> None:
    redis_away = Dependency("redis", False, False, "refused")
    seen = overview(StandIn(0), StandIn(1, READY._replace(dependencies=(redis_away,))))
    await seen.refresh()
    health = seen.health()
    assert (health.is_ready, health.status) == (True, "degraded")
    assert health.dependencies["redis"]["ok"] is False


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
async def test_the_longest_quarantine_that_any_worker_sees_is_shown(
    order: tuple[int, ...],
) -> None:
    """It is well all the same: a start must not turn health checks red."""
    found = [
        Dependency("redis", True, False, "connected"),
        Dependency("redis", True, False, "connected; for up to 37 s", 36.5),
        Dependency("redis", True, False, "connected; for up to 4 s", 3.1),
    ]
    workers = [StandIn(n, READY._replace(dependencies=(found[at],))) for n, at in enumerate(order)]
    seen = overview(*workers)
    await seen.refresh()
    redis = {"ok": True, "required": False, "detail": "connected; for up to 37 s"}
    assert (seen.health().dependencies["redis"], seen.health().status) == (redis, "ready")


def kinds(seen: Overview) -> list[tuple[str, str]]:
    """What the installation log says, oldest first."""
    return [(entry.kind, entry.subject) for entry in seen.log.recent()][::-1]


async def test_what_workers_report_goes_into_the_installation_log() -> None:
    first, second = StandIn(0), StandIn(1)
    seen = overview(first, second)

    async def polled(
        *dependencies: Dependency, spooled: int = 0, suppression: str = ON, polls: int = 2
    ) -> None:
        first.readiness = READY._replace(dependencies=(*READY.dependencies, *dependencies))
        first.suppression = {"deals": TopicSuppression(suppression)}
        first.meter.watch_spool(lambda: {"orders": (spooled, 10, 1.0)} if spooled else {})
        for _ in range(polls):
            await seen.refresh(at_once=True)

    well = Dependency("redis", True, False, "connected", server="a:1 run x")
    await polled(well)
    assert kinds(seen) == []
    away = Dependency("redis", False, False, "no connection", server="a:1 run x")
    await polled(away, suppression=AWAY, spooled=3)
    await polled(well._replace(server="b:2 run y"), suppression=QUARANTINE, spooled=3)
    await polled(well._replace(server="b:2 run y"))
    assert kinds(seen) == [
        ("outage_began", "redis"),
        ("suppression_away", "deals"),
        ("spool_began", "spool"),
        ("outage_ended", "redis"),
        ("redis_changed", "redis"),
        ("quarantine_began", "deals"),
        ("suppression_on", "deals"),
        ("spool_ended", "spool"),
    ]


async def test_nothing_is_said_of_a_worker_that_is_missing_or_of_a_drain() -> None:
    first, second = StandIn(0), StandIn(1)
    second.meter.watch_spool(lambda: {"orders": (3, 10, 1.0)})
    seen = overview(first, second)
    for _ in range(2):
        await seen.refresh(at_once=True)
    assert kinds(seen) == [("spool_began", "spool")]
    second.client = None
    seen.worker_died(second.pid)
    for _ in range(3):
        await seen.refresh(at_once=True)
    seen.is_draining = True
    first.readiness = READY._replace(dependencies=(Dependency("redis", False, False, "gone"),))
    for _ in range(3):
        await seen.refresh(at_once=True)
    assert kinds(seen) == [("spool_began", "spool")]


async def test_a_worker_that_is_silent_for_too_long_is_killed_and_told_of() -> None:
    worker = StandIn(0)
    seen = overview(worker)
    await seen.refresh(at_once=True)
    worker.is_silent = True
    worker.last_answer = time.monotonic() - 30
    await seen.refresh(at_once=True)
    assert (worker.signals, kinds(seen)) == ([], [])
    worker.last_answer = time.monotonic() - 61
    await seen.refresh(at_once=True)
    assert (worker.signals, kinds(seen)) == ([signal.SIGKILL], [("worker_silent", "worker 0")])


async def test_the_successor_of_a_lost_worker_is_logged_once() -> None:
    worker = StandIn(0)
    seen = overview(worker)
    await seen.refresh(at_once=True)
    assert kinds(seen) == []  # the entry of the gateway's start says it
    for _ in range(2):  # the first successor does not get as far as an answer
        seen.worker_lost(0, "was killed by SIGKILL", -9)
    worker.answered = False
    for _ in range(2):
        await seen.refresh(at_once=True)
    assert kinds(seen) == [
        ("worker_died", "worker 0"), ("worker_died", "worker 0"), ("worker_started", "worker 0")
    ]  # fmt: skip
    (entry,) = seen.log.recent(1)
    assert entry.level == "info"
    assert entry.details["worker"] == 0
    assert isinstance(entry.details["seconds"], float)
    assert entry.text.startswith("worker 0 is up again after ")


async def test_of_each_topic_the_worst_that_any_worker_sees_is_shown() -> None:
    first, second = StandIn(0), StandIn(1)
    first.suppression = {
        "deals": TopicSuppression(QUARANTINE, 3.0), "prices": TopicSuppression(ON),
        "stock": TopicSuppression(QUARANTINE, 9.0), "names": TopicSuppression(ON),
    }  # fmt: skip
    second.suppression = {
        "deals": TopicSuppression(QUARANTINE, 7.0), "prices": TopicSuppression(QUARANTINE, 1.0),
        "stock": TopicSuppression(AWAY), "saves": TopicSuppression(QUARANTINE, None),
    }  # fmt: skip
    seen = overview(first, second)
    assert seen.suppression() == {}
    await seen.refresh()
    worst = {
        "deals": TopicSuppression(QUARANTINE, 7.0), "prices": TopicSuppression(QUARANTINE, 1.0),
        "stock": TopicSuppression(AWAY), "names": TopicSuppression(ON),
        "saves": TopicSuppression(QUARANTINE, None),
    }  # fmt: skip
    assert seen.suppression() == worst
    seen.worker_died(second.pid)
    assert seen.suppression() == first.suppression


def test_what_a_worker_tells_of_suppression_survives_the_wire() -> None:
    state = WorkerState(READY, (), {"deals": TopicSuppression(QUARANTINE, 1.5)})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=WorkerState) == state


async def test_a_worker_that_cannot_work_or_drains_makes_all_not_ready() -> None:
    down = Dependency("kafka main", False, True, "away", is_cluster=True)
    seen = overview(StandIn(0), StandIn(1, READY._replace(dependencies=(down,))))
    await seen.refresh()
    assert (seen.health().is_ready, seen.health().status) == (False, "not ready")
    seen = overview(StandIn(0, READY._replace(draining=True)))
    await seen.refresh()
    assert (seen.health().is_ready, seen.health().status) == (False, "draining")


async def test_a_worker_that_ends_while_it_is_read_is_not_counted_twice() -> None:
    worker: Any = posted(StandIn(0))
    seen = overview(worker)
    await seen.refresh()
    worker.ends_meanwhile = True
    seen.worker_died(100)
    await seen._read(with_details=True)
    assert events(seen) == 1


async def test_a_silent_worker_is_killed_after_a_while_only() -> None:
    worker = StandIn(0)
    seen = overview(worker)
    await seen.refresh()
    worker.is_silent = True
    await seen._read(with_details=False)
    assert worker.signals == []
    assert not seen.health().is_ready
    worker.last_answer -= 61
    await seen._read(with_details=False)
    assert worker.signals == [9]


async def test_a_worker_that_answers_again_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    worker = StandIn(0)
    seen = overview(worker)
    for is_silent in (False, True, True, False, False):
        worker.is_silent = is_silent
        await seen._read(with_details=False)
    texts = [one.getMessage().partition(":")[0] for one in caplog.records]
    assert texts == [
        "worker 0 is up", "worker 0 does not answer", "worker 0 does not answer",
        "worker 0 answers again",
    ]  # fmt: skip
    assert caplog.records[-1].__dict__["away_s"] >= 0


async def test_a_worker_that_starts_may_take_its_time() -> None:
    worker = StandIn(0)
    worker.is_silent = True
    seen = overview(worker)
    await seen.refresh()
    assert worker.signals == []


async def test_a_worker_that_started_before_a_reload_is_told_once_it_answers() -> None:
    worker = StandIn(0)
    seen = overview(worker)
    seen.reloaded = worker.started + 1
    await seen.refresh()
    await seen._read(with_details=False)
    assert worker.signals == [1]


async def test_forgetting_asks_the_next_worker_when_one_is_silent() -> None:
    silent, answering = StandIn(0), StandIn(1)
    silent.is_silent = True
    seen = overview(silent, answering)
    assert await seen.forget("deals", b"k") is None
    answering.failure = Failure(Reason.REDIS_UNAVAILABLE, "away")
    assert await seen.forget("deals", b"k") == answering.failure
    answering.is_silent = True
    failed = await seen.forget("deals", b"k")
    assert failed is not None
    assert failed.reason is Reason.OVERLOADED  # it may be asked again


async def test_readiness_is_a_figure_too() -> None:
    away = Dependency("kafka main", False, True, "refused", is_cluster=True)
    worker = StandIn(0, READY._replace(dependencies=(away,)))
    seen = overview(worker)
    await seen.refresh()
    shown = seen.figures.total().gauges
    assert shown["headgate_ready"] == {(): 0.0}
    assert shown["headgate_dependency_up"] == {("kafka main",): 0.0}
    worker.readiness = READY
    await seen.refresh(at_once=True)
    shown = seen.figures.total().gauges
    assert shown["headgate_ready"] == {(): 1.0}
    assert shown["headgate_dependency_up"] == {("kafka main",): 1.0}


def test_counters_whose_labels_are_known_begin_with_nothing() -> None:
    counters = overview().figures.total().counters
    assert counters["headgate_config_reloads_total"] == {("applied",): 0, ("refused",): 0}
    assert counters["headgate_tls_reloads_total"] == {("applied",): 0, ("refused",): 0}
