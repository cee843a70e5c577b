"""Whether an event must be published: where its topic suppresses, Redis is asked first.

Where it does not, events only pass, unless others still rely on what Redis knows of the topic
(`Suppression.passes`).
"""

from collections.abc import Callable

from headgate.backends.base import Suppression
from headgate.core.outcome import Failure
from headgate.core.publish import Publish
from headgate.core.record import content_type_of
from headgate.core.suppression import Reservation, Scope
from headgate.core.topics.route import Common, Route
from headgate.pipeline.complete import Complete
from headgate.pipeline.produce import Produce


class Reserve:
    """scope_of: a topic's namespace in force.  is_behind: whether events of a topic lie on disk, so
    that nothing of it can be compared now.
    """

    def __init__(
        self,
        suppression: Suppression,
        scope_of: Callable[[str], Scope | None],
        produce: Produce,
        is_behind: Callable[[str], bool] | None = None,
    ) -> None:
        self._suppression = suppression
        self._scope_of = scope_of
        self._produce = produce
        self._is_behind = is_behind

    def take(self, started: list[Publish]) -> None:
        """Events of one topic, in order. They may have waited, and the topic may have been
        recreated meanwhile."""
        route = _common(started[0]).route
        scope = self._scope_of(route.state.name) or route.scope
        uncompared = self._is_behind is not None and self._is_behind(route.state.name)
        if self._passes(route, scope, len(started), uncompared):
            if scope is not None:
                passed = Reservation(scope, route.state.partitions)
                for publish in started:
                    publish.reservation, publish.digest = passed, None
            self._produce.take(started)
            return
        refuse = route.refuses and route.digest is not None
        for publish in started:
            if uncompared:
                publish.digest = b""
            force = uncompared or _common(publish).force
            self._ask(publish, route, scope, force=force, refuse=refuse)

    def one(self, publish: Publish) -> None:
        """One whose turn has come."""
        self.take([publish])

    def element(self, part: Publish, *, refuse: bool) -> bool:
        """A record of a key of its own, from a document that came apart: the state of that key
        must learn of it, or an equal event would be compared with what is no longer the newest.

        False: nobody needs to; it may be handed over at once.
        """
        route = _common(part).route
        scope = route.scope
        if self._passes(route, scope, 1, False):
            if scope is not None:
                part.reservation = Reservation(scope, route.state.partitions)
            return False
        refuse = refuse or (route.refuses and route.digest is not None)
        self._ask(part, route, scope, force=True, refuse=refuse)
        return True

    def _passes(self, route: Route, scope: Scope | None, count: int, uncompared: bool) -> bool:
        if route.digest is not None and (not uncompared or route.refuses):
            return False
        return scope is None or self._suppression.passes(scope, count)

    def _ask(
        self, publish: Publish, route: Route, scope: Scope | None, *, force: bool, refuse: bool
    ) -> None:
        record = publish.record
        if record.key is None:  # nothing of it can be compared
            publish.digest = None
            self._produce.one(publish)
            return
        if publish.placed or route.digest is None:
            publish.digest, force = b"", True
        elif publish.digest is None:
            publish.digest = route.digest(record.value, content_type_of(record))
        assert scope is not None  # or nobody would be asked
        partitions = route.state.partitions
        publish.reservation = Reservation(scope, partitions, force, refuse)
        self._suppression.reserve(publish)


def _common(publish: Publish) -> Common:
    assert publish.common is not None  # it came with a request
    return publish.common


class ReserveVerdicts:
    """Implements `base.Verdicts`: what becomes of an event that was asked for."""

    def __init__(self, complete: Complete, produce: Produce) -> None:
        self._complete = complete
        self._produce = produce

    def publish(self, publish: Publish) -> None:
        self._produce.one(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        self._complete.unchanged(publish, offset)

    def refused(self, publish: Publish, failure: Failure) -> None:
        self._complete.refused(publish, failure)
