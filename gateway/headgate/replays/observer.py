"""From the registries of replays to entries of the installation log."""

from collections.abc import Iterable, Iterator, Mapping

from headgate.core.installation import Detail, Happening, Kind
from headgate.core.replays.replay import Replay, ReplayState, created_ms

_MAX_KNOWN = 10_000
_ENDS = {
    ReplayState.READY: (Kind.REPLAY_DONE, "can be read"),
    ReplayState.COMPLETED: (Kind.REPLAY_DONE, "completed"),
    ReplayState.FAILED: (Kind.REPLAY_FAILED, "failed"),
    ReplayState.CANCELLED: (Kind.REPLAY_CANCELLED, "cancelled"),
    ReplayState.EXPIRED: (Kind.REPLAY_EXPIRED, "expired"),
}


class ReplayObserver:
    """since_ms: when this gateway started; what was asked for before is nothing new.

    A registry may be read for the first time long after the start, or again from its beginning:
    a replay that was seen once is known by its id, whether it is there in between or not.
    """

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._states: dict[str, ReplayState] = {}

    def see(self, replays: Iterable[Replay]) -> Iterator[Happening]:
        """All replays that are known, as they are now."""
        for replay in replays:
            yield from self._one(replay)
        while len(self._states) > _MAX_KNOWN:  # those that were seen first
            del self._states[next(iter(self._states))]

    def _one(self, replay: Replay) -> Iterator[Happening]:
        before, now = self._states.get(replay.id), replay.state
        self._states[replay.id] = now
        is_new = before is None and created_ms(replay) >= self._since_ms
        if is_new:
            text = f"{_named(replay)}: asked for"
            asked_ms = created_ms(replay)
            yield Happening(Kind.REPLAY_CREATED, replay.id, text, _details(replay), asked_ms)
        if now in _ENDS and before != now and (is_new or before is not None):
            kind, said = _ENDS[now]
            reason = _text(replay.status, "reason")
            text = f"{_named(replay)}: {said}{f': {reason}' if reason else ''}"
            details = _details(replay) | ({"reason": reason} if reason else {})
            at_ms = replay.status.get("at_ms")
            found_ms = at_ms if isinstance(at_ms, int) else None
            yield Happening(kind, replay.id, text, details, found_ms)


def _named(replay: Replay) -> str:
    spec = replay.spec or {}
    return f"{_text(spec, 'name') or replay.id} of {_text(spec, 'topic')}"


def _details(replay: Replay) -> dict[str, Detail]:
    spec = replay.spec or {}
    return {name: _text(spec, name) for name in ("name", "topic", "mode", "by")}


def _text(document: Mapping[str, object], name: str) -> str:
    found = document.get(name)
    return found if isinstance(found, str) else ""
