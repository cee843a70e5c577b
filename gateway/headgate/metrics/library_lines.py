"""Log lines of libraries: fields of Headgate's lines, and fewer repetitions of them.

aiokafka logs every attempt at a broker that is unavailable, while Headgate logs one line when an
outage begins and one when it ends. The table below lists the lines of aiokafka that repeat a
line or an answer of Headgate: they become DEBUG. All other lines of libraries stay as they are.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final, NamedTuple
from weakref import WeakSet

from headgate.model.times import Outage

# Kafka cluster that the present task and the tasks that it starts talk to.
_cluster: ContextVar[str] = ContextVar("cluster", default="")
PATIENCE_S: Final = 15.0
_FORGET_S: Final = 60.0
_REMEMBERED: Final = 256  # unreachable brokers at a time


class Repeated(NamedTuple):
    """A line of a library that repeats a line or an answer of Headgate.

    Attributes:
        report: Where Headgate reports the same.
        is_patient: Whether the line becomes a WARNING if it goes on for `PATIENCE_S` and Headgate
            reports no outage of the cluster: then only some of its brokers are unavailable.
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


class LibraryLines(logging.Filter):
    """Filter that adds the fields of this process, and lowers the lines of `REPEATED` to DEBUG.

    Args:
        level: The lowest level that is written.
        worker: The number of the worker; None in other processes.
        monotonic: Monotonic clock, in seconds.
    """

    def __init__(
        self, level: int, worker: int | None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._level, self._worker, self._monotonic = level, worker, monotonic
        self._failing: dict[tuple[str, object], tuple[float, float]] = {}  # first and last failure

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
        is_lasting = repeated.is_patient and self._is_lasting(cluster, record)
        record.levelno = logging.WARNING if is_lasting else logging.DEBUG
        record.levelname = logging.getLevelName(record.levelno)
        return record.levelno >= self._level

    def _is_lasting(self, cluster: str, record: logging.LogRecord) -> bool:
        """Return whether a broker fails for long, in a cluster without a reported outage."""
        now = self._monotonic()
        broker = cluster, record.args[0] if isinstance(record.args, tuple) else None
        first, last = self._failing.get(broker, (now, now))
        if now - last > _FORGET_S:
            first = now
        if len(self._failing) >= _REMEMBERED:
            self._failing.clear()
        self._failing[broker] = first, now
        is_reported = any(outage.is_of(cluster) for outage in _outages)
        return now - first >= PATIENCE_S and not is_reported
