"""Log lines of libraries: fields of Headgate's lines, and fewer repetitions of them.

aiokafka logs every attempt at a broker that is unavailable, while Headgate logs one line when an
outage begins and one when it ends. The table below lists the lines of aiokafka that repeat a
line or an answer of Headgate: they become DEBUG. All other lines of libraries stay as they are.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakSet

from headgate.model.times import Outage

# Kafka cluster that the present task and the tasks that it starts talk to.
_cluster: ContextVar[str] = ContextVar("cluster", default="")
PATIENCE_S: Final = 15.0
QUIET_S: Final = 60.0  # without a failure, a broker counts as reachable again
_REMEMBERED: Final = 256  # unreachable brokers at a time

# Schedules a call after a number of seconds, and returns the function that cancels it.
Later = Callable[[float, Callable[[], None]], Callable[[], None]]


def later_on_thread(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Schedule a call on a thread of its own."""
    timer = threading.Timer(seconds, call)
    timer.name, timer.daemon = "log", True
    try:
        timer.start()
    except RuntimeError:  # the interpreter is ending: `Lines.close` writes the counts
        return lambda: None
    return timer.cancel


class Repeated(NamedTuple):
    """A line of a library that repeats a line or an answer of Headgate.

    Attributes:
        report: Where Headgate reports the same.
        is_patient: Whether the first line after `PATIENCE_S` becomes a WARNING if Headgate reports
            no outage of the cluster: then only some of its brokers are unavailable.
    """

    report: str
    is_patient: bool = False


_OUTAGE: Final = Repeated("`cluster NAME does not answer`, `cannot connect to cluster NAME`")
_PRODUCER: Final = Repeated("`producer of cluster NAME replaced`, and answers 503 and `unknown`")
_GROUP: Final = Repeated("`cluster NAME does not answer`; the member joins its group again")
REPEATED: Final[Mapping[str, Mapping[str, Repeated]]] = {
    "aiokafka": {  # its client, and `kafka.aiokafka_internals`
        "Kafka node %s returned no metadata: %s": Repeated(_OUTAGE.report, is_patient=True),
        "Unable connect to node with id %s: %s": Repeated(_OUTAGE.report, is_patient=True),
    },
    "aiokafka.cluster": {
        "Topic %s is not available during auto-create initialization": Repeated(
            "answers 503 until the partitions have leaders"
        ),
        "Topic %s not found in cluster metadata": Repeated("answers 404 `unknown_topic`"),
    },
    "aiokafka.conn": {
        "Sending username and password in the clear": Repeated("`headgate check`"),
    },
    "aiokafka.consumer.fetcher": {
        "Failed fetch messages from %s: %s": _OUTAGE,
        "Failed fetch offsets from %s: %s": _OUTAGE,
    },
    "aiokafka.consumer.group_coordinator": {
        "Error sending %s to node %s [%s] -- marking coordinator dead": _GROUP,
        "Marking the coordinator dead (node %s)for group %s.": _GROUP,
        "Group Coordinator Request failed: %s": _GROUP,
        "Heartbeat send request failed: %s. Will retry.": _GROUP,
        "Heartbeat session expired - marking coordinator dead": _GROUP,
        "Heartbeat failed for group %s: coordinator (node %s) is either not started or not valid": (
            _GROUP
        ),
    },
    "aiokafka.producer.sender": {
        "Cannot send %r to %s: %r": _OUTAGE,
        "Could not send %r: %r": _OUTAGE,
        "Got error produce response: %s": _PRODUCER,
        "Got error produce response on topic-partition %s, retrying. Error: %s": _PRODUCER,
    },
}


def in_cluster(name: str) -> None:
    """Name the cluster that this task talks to; lines of its clients get the field `cluster`."""
    _cluster.set(name)


class ClusterOutage:
    """The outage of a cluster, as one part of the process sees it and logs it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._outage = Outage(time.monotonic)

    def begins(self) -> bool:
        """Record the begin of an outage; return False if it had begun already."""
        _outages.add(self)
        return self._outage.begins()

    def ends(self) -> float | None:
        """Record the end of an outage; return its duration in seconds, or None."""
        _outages.discard(self)
        return self._outage.ends()

    def is_of(self, cluster: str) -> bool:
        """Return whether this is an outage of the cluster."""
        return self._name == cluster


_outages: WeakSet[ClusterOutage] = WeakSet()


class _Failing:
    """Failed connections to one broker.

    Attributes:
        first: Time of the first, in seconds.
        last: Time of the last, in seconds.
        is_logged: Whether a line reports them.
    """

    __slots__ = ("first", "is_logged", "last")

    def __init__(self, first: float) -> None:
        self.first = self.last = first
        self.is_logged = False


class LibraryLines(logging.Filter):
    """Filter that adds the fields of this process, and lowers the lines of `REPEATED` to DEBUG.

    Args:
        level: The lowest level that is written.
        worker: The number of the worker; None in other processes.
        monotonic: Monotonic clock, in seconds.
        later: Schedules the line that a broker is reachable again.
    """

    def __init__(
        self,
        level: int,
        worker: int | None,
        monotonic: Callable[[], float] = time.monotonic,
        later: Later = later_on_thread,
    ) -> None:
        super().__init__()
        self._level, self._worker, self._monotonic = level, worker, monotonic
        self._later = later
        self._failing: dict[tuple[str, object], _Failing] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        if self._worker is not None and not hasattr(record, "worker"):
            record.worker = self._worker
        cluster = _cluster.get()
        if cluster and not hasattr(record, "cluster"):
            record.cluster = cluster
        repeated = REPEATED.get(record.name, {}).get(record.msg)
        if repeated is None:
            return True
        begins = repeated.is_patient and self._begins(cluster, record)
        record.levelno = logging.WARNING if begins else logging.DEBUG
        record.levelname = logging.getLevelName(record.levelno)
        return record.levelno >= self._level

    def _begins(self, cluster: str, record: logging.LogRecord) -> bool:
        """Return whether a broker fails for long for the first time, and no outage is reported."""
        now = self._monotonic()
        broker = cluster, record.args[0] if isinstance(record.args, tuple) else None
        failing = self._failing.get(broker)
        if failing is None or now - failing.last > QUIET_S:
            if len(self._failing) >= _REMEMBERED:
                self._failing.clear()
            failing = self._failing[broker] = _Failing(now)
        failing.last = now
        is_reported = any(not cluster or outage.is_of(cluster) for outage in _outages)
        if failing.is_logged or now - failing.first < PATIENCE_S or is_reported:
            return False
        failing.is_logged = True
        self._later(QUIET_S, partial(self._look_again, broker, record.name))
        return True

    def _look_again(self, broker: tuple[str, object], logger: str) -> None:
        """Log the end of a broker's failures if there was none for `QUIET_S`."""
        failing = self._failing.get(broker)
        if failing is None:
            return
        left_s = failing.last + QUIET_S - self._monotonic()
        if left_s > 0:
            self._later(left_s, partial(self._look_again, broker, logger))
            return
        del self._failing[broker]
        if self._level > logging.INFO:
            return
        cluster, node = broker
        away_s = round(failing.last - failing.first, 3)
        fields = {"name": logger, "levelno": logging.INFO, "levelname": "INFO", "away_s": away_s}
        fields |= {"cluster": cluster} if cluster else {}
        line = logging.makeLogRecord(fields)
        line.msg = "No failed connection to node with id %s for %.0f s; it failed for %.0f s before"
        line.args = (node, QUIET_S, away_s)
        logging.getLogger(logger).handle(line)  # whatever the logger's own level is
