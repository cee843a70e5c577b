"""Traffic that goes on through faults, and the judgement of its answers by the log."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple

from headgate.devstack.ports import LOOPBACK
from support.kafka.kafka_log import LogRecord, read_log

_PACE_S, _PAUSE_S = 0.005, 0.02  # after an answer, and after a refusal: no busy loops
_LOST = "lost"  # the connection broke before an answer


class Sent(NamedTuple):
    """One event and what became of it.

    outcome: `published`, `unchanged`, `lost`, or the reason of a failure.  began, ended: monotonic
    seconds.  place: partition and offset, where the answer has them.
    """

    value: bytes
    key: bytes
    outcome: str
    status: int
    began: float
    ended: float
    place: tuple[int, int] | None
    retry_after: str | None


class Load:
    """Writers, each with keys of its own, one event after another, none of them twice.

    same: each writer repeats a content that often before the next one.
    """

    def __init__(self, port: int, topic: str, writers: int = 6, same: int = 1) -> None:
        self._port = port
        self._path = f"/v1/topics/{topic}/events"
        self._topic = topic
        self._same = same
        self._stopping = threading.Event()
        self._sent: list[list[Sent]] = [[] for _ in range(writers)]
        self._threads = [
            threading.Thread(target=self._write, args=(n, mine), name=f"writer {n}")
            for n, mine in enumerate(self._sent)
        ]

    @contextmanager
    def running(self) -> Iterator[Load]:
        """Send within the block; at its end every request has its answer."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join()

    @property
    def sent(self) -> list[Sent]:
        """Everything so far, by writer."""
        return [one for mine in self._sent for one in list(mine)]

    def outcomes(self, since: float = 0.0) -> Counter[str]:
        """How often each outcome was answered to what was sent after `since`."""
        return Counter(one.outcome for one in self.sent if one.began >= since)

    def each_since(self, since: float, outcome: str, count: int = 1) -> bool:
        """Whether every writer has sent so many events after `since` that ended so."""
        return all(
            sum(one.began >= since and one.outcome == outcome for one in list(mine)) >= count
            for mine in self._sent
        )

    def _write(self, writer: int, mine: list[Sent]) -> None:
        connection = HTTPConnection(LOOPBACK, self._port, timeout=90)
        headers = {"Content-Type": "application/json", "Headgate-Producer": f"w{writer}"}
        count = 0
        while not self._stopping.is_set():
            key = f"w{writer}"
            value = json.dumps({"id": key, "n": count // self._same, "text": "x" * 300}).encode()
            count += 1
            one = self._post(connection, value, key.encode(), headers)
            mine.append(one)
            if one.outcome in ("published", "unchanged"):
                time.sleep(_PACE_S)
            else:
                connection.close()
                time.sleep(_PAUSE_S)
        connection.close()

    def _post(
        self, connection: HTTPConnection, value: bytes, key: bytes, headers: dict[str, str]
    ) -> Sent:
        began = time.monotonic()
        try:
            connection.request("POST", self._path, value, headers)
            answer = connection.getresponse()
            body = json.loads(answer.read())
        except (OSError, HTTPException):
            return Sent(value, key, _LOST, 0, began, time.monotonic(), None, None)
        place = (body["partition"], body["offset"]) if "offset" in body else None
        outcome = str(body.get("reason") or body["outcome"])
        again = answer.headers.get("Retry-After")
        return Sent(value, key, outcome, answer.status, began, time.monotonic(), place, again)

    def judge(self, bootstrap: str) -> list[LogRecord]:
        """Compare every answer with the log; return the log.

        What was answered `published` is in the log where the answer says, once for each such
        answer, and in order for each key. What was refused is not there. Only events whose end
        nobody said (`unknown`, or a broken connection) may be there or not.
        """
        records = read_log(bootstrap, self._topic)
        by_place = {(one.partition, one.offset): one for one in records}
        answered: dict[bytes, set[str]] = defaultdict(set)
        for one in self.sent:
            answered[one.value].add(one.outcome)
            if one.outcome in ("published", "unchanged"):
                assert one.place is not None
                record = by_place[one.place]
                assert (record.value, record.key) == (one.value, one.key), one
        self._judge_rest(records, answered)
        for mine in self._sent:
            places = [one.place for one in mine if one.outcome == "published" and one.place]
            assert places == sorted(places), "a key has one partition, and its events their order"
        return records

    def _judge_rest(self, records: list[LogRecord], answered: dict[bytes, set[str]]) -> None:
        told = {one.place for one in self.sent if one.outcome == "published"}
        for record in records:
            if (record.partition, record.offset) not in told:
                outcomes = answered[record.value or b""]
                assert outcomes & {"unknown", _LOST}, f"{record} was answered {outcomes}"
