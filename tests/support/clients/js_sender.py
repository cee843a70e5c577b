"""A program of the JavaScript client that sends until it is told to stop."""

from __future__ import annotations

from typing import Any

from support.clients.faults import DEADLINE_S
from support.clients.judgement import End, History, Sent
from support.clients.node import NodeProgram
from support.clients.recording import Seen


class JsSender:
    """`load.mjs`, which says every 50 ms how far it is."""

    def __init__(self, program: NodeProgram) -> None:
        self._program = program

    @property
    def ended_events(self) -> int:
        return int(self._program.newest()["ended"])

    @property
    def failed_events(self) -> int:
        return int(self._program.newest()["failed"])

    def stop(self) -> History:
        """Have it come to its end; everything must have ended by itself then."""
        self._program.stop()
        said: dict[str, Any] = self._program.end(DEADLINE_S * 2)[-1]
        assert said["isFlushed"]
        return _history_of(said)


def _history_of(said: dict[str, Any]) -> History:
    sent = [Sent(one["key"], one["eventId"], one["value"].encode()) for one in said["sent"]]
    ends: dict[str, list[End]] = {}
    for one in said["ended"]:
        end = End(one["name"], one.get("partition"), one.get("offset"), one.get("reason", ""))
        ends.setdefault(one["eventId"], []).append(end)
    attempts: dict[str, list[Seen]] = {}
    for one in said["attempts"]:
        seen = Seen(one["eventId"], one["end"], one["isBypassed"])
        attempts.setdefault(one["eventId"], []).append(seen)
    return History(sent, ends, lambda event_id: attempts.get(event_id, ()))
