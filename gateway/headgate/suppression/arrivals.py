"""The order of each key's events in this process, and which of them take another's outcome."""

from collections.abc import Iterable

from headgate.core.publish import Publish, Stage
from headgate.core.suppression import Scope


class Arrivals:
    """The latest event of each key that is under way here. Keyed by the name of its entry."""

    __slots__ = ("_behind", "_latest")

    def __init__(self) -> None:
        self._latest: dict[bytes, Publish] = {}
        self._behind: dict[bytes, Publish] = {}  # token -> the equal event right before it

    def arrive(self, entry: bytes, publish: Publish) -> bool:
        """Note a new event; True if it follows the latest one and needs nothing of its own."""
        latest = self._latest.get(entry)
        if latest is not None and latest.digest == publish.digest:
            if may_follow(publish, latest):
                _follow(publish, latest)
                return True
            if latest.stage is Stage.RESERVING and not publish.force:
                self._behind[publish.token] = latest
        self._latest[entry] = publish
        return False

    def join_in_lane(self, entry: bytes, publish: Publish) -> bool:
        """At the door of the lane: True if the key's last record in it is equal, and joined.

        The equal event right before this one was noted when it arrived. What lies between the
        two can only be that event's own leader.
        """
        if not self._behind:
            return False
        latest = self._behind.pop(publish.token, None)
        if latest is None:
            return False
        leader = latest.leader or latest
        if leader.stage is not Stage.LANE or not may_follow(publish, leader):
            return False
        if self._latest.get(entry) is publish:
            self._latest[entry] = leader
        _follow(publish, leader)
        return True

    def rename_token(self, old: bytes, new: bytes) -> None:
        """An event has another token now."""
        latest = self._behind.pop(old, None)
        if latest is not None:
            self._behind[new] = latest

    def leave(self, entry: bytes, publish: Publish) -> None:
        """It has ended: nothing can follow it any more."""
        if self._latest.get(entry) is publish:
            del self._latest[entry]
        if self._behind:
            self._behind.pop(publish.token, None)

    def of(self, scope: Scope) -> Iterable[Publish]:
        """Return the latest events of a namespace."""
        return [publish for publish in self._latest.values() if publish.scope is scope]

    def rename(self) -> None:
        """Some events have another scope now, and so other entries."""
        self._latest = {
            publish.scope.entry(publish.record.key): publish for publish in self._latest.values()
        }


def may_follow(publish: Publish, latest: Publish) -> bool:
    """Tell whether an event may join its key's latest event here, which has the same content.

    Only before that one's reservation is sent, or while it waits in its lane: then nothing else
    of the key can come between the two. Afterwards another process' record may already lie above
    it (8-suppression-model, counterexample 3).
    """
    return (
        (latest.stage is Stage.QUEUED or latest.stage is Stage.LANE)
        and not latest.dropped
        and not publish.force
        and latest.digest == publish.digest
    )


def _follow(publish: Publish, leader: Publish) -> None:
    """Attach a publish, and those that follow it already, to a leader."""
    if leader.followers is None:
        leader.followers = []
    for follower in (publish, *(publish.followers or ())):
        follower.leader = leader
        leader.followers.append(follower)
    publish.followers = None
