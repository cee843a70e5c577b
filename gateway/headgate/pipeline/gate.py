"""Whether a topic takes an event now: decided here alone, and asked by every front.

Whoever adds a reason (a topic that is paused, say) adds it to `open`.
"""

from collections.abc import Callable

from headgate.core.coalescing.holding import refusal_of
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.core.spelling import did_you_mean
from headgate.core.suppression import Scope
from headgate.core.topics.route import Route
from headgate.core.topics.similar import SimilarTopics
from headgate.core.topics.topic import TopicState
from headgate.pipeline.routes import Routes

_NO_OFFSET = Failure(
    Reason.NEEDS_NATIVE_API,
    "this topic coalesces, so there is no offset yet to answer with: "
    "post to /v1/topics/{topic}/events",
)
_SPOOLS = Failure(
    Reason.NEEDS_NATIVE_API,
    "events of this topic may be spooled, so there may be no offset yet to answer with: "
    "post to /v1/topics/{topic}/events",
)
_STILL_SPOOLED = Failure(
    Reason.KAFKA_UNAVAILABLE,
    "the spool still holds events of this topic from before it stopped spooling, so there is no "
    "offset to answer with yet; nothing was written",
    retry_after_s=5,
)


class Gate:
    """See the module. full: why a held topic takes nothing more now, else None.

    is_spooled: whether anything of a topic lies in the spool, or goes there. None: no spool.
    similar: finds the topic that a wrong name may mean. None: answers contain no suggestion.
    """

    def __init__(
        self,
        routes: Routes,
        full: Callable[[str], Failure | None] = lambda held: None,
        is_spooled: Callable[[str], bool] | None = None,
        similar: SimilarTopics | None = None,
    ) -> None:
        self._routes = routes
        self._full = full
        self._is_spooled = is_spooled
        self._similar = similar

    def open(self, topic: str, *, needs_offset: bool = False) -> Route:
        """The rules by which the topic takes an event now. Raises Refused: why it takes none.

        needs_offset: the answer must name the record's offset, which a held or spooled event has
        not.
        """
        if self._is_spooled is not None and self._is_spooled(
            topic
        ):  # whatever the configuration says: it goes behind that
            route = self._routes.behind(topic)
            if needs_offset:
                raise Refused(_SPOOLS if route.policy.spool else _STILL_SPOOLED)
            return route
        route = self._routes.find(topic)
        if route.held is not None:
            failure = refusal_of(route.policy, route.held) or self._full(route.held.name)
            if failure is None and needs_offset:
                failure = _NO_OFFSET
            if failure is not None:
                raise Refused(failure)
        elif needs_offset and route.policy.spool:
            raise Refused(_SPOOLS)
        return route

    def rules(self, topic: str) -> Route:
        """The topic's rules, for those who ask and send no event: whether it takes one or not.

        The end of a burst is none: a topic that holds too much takes it, and becomes empty by it.
        Raises Refused (unknown_topic, kafka_unavailable).
        """
        return self._routes.find(topic)

    def with_suggestion(
        self, failure: Failure, topic: str, may_post: Callable[[str], bool]
    ) -> Failure:
        """Return the failure; if the topic is unknown, with a similar topic that exists.

        Args:
            failure: Why the topic takes no event.
            topic: The name that the client sent.
            may_post: Tells whether the caller may write to a topic. No other topic is named.
        """
        if failure.reason is not Reason.UNKNOWN_TOPIC or self._similar is None:
            return failure
        meant = self._similar.find(topic, may_post)
        if meant is None:
            return failure
        return failure._replace(detail=f"{failure.detail}. {did_you_mean(meant)}")

    def scope_of(self, topic: str) -> Scope | None:
        """The topic's suppression scope in force, if it has one."""
        return self._routes.scope_of(topic)

    def state_of(self, topic: str) -> TopicState | None:
        """The topic as its cluster last described it; None if the cluster does not have it."""
        return self._routes.state_of(topic)

    def facts_of(self, topic: str) -> int:
        """Of one in how many of the topic's events facts are told; 0 = of none."""
        return self._routes.facts_of(topic)
