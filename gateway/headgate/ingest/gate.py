"""The gate: does a topic take events now, and by which rules?

All fronts ask it. A new reason to refuse a topic's events belongs in `Gate.open`. The rules of a
topic are its route, which is compiled once for each policy and topic state.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from headgate.backends.base import Topics
from headgate.formats.decode import scanner_for
from headgate.formats.json_text import KeyReader
from headgate.model.content import Comparison, ContentCheck, Digester
from headgate.model.internal_topics import as_held, held_topic, is_held, is_there, refusal_of
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.outcome import Failure, Reason, Refused, brief
from headgate.model.policy import PolicyTable, TopicPolicy, fingerprint, key_rule
from headgate.model.route import Route
from headgate.model.suppression import Scope
from headgate.model.text import did_you_mean
from headgate.model.topics import SimilarTopics, TopicState

Compile = Callable[..., Route]
_RETRY_AFTER_S = 10
_AT_ONCE = 10  # routes, some 50 to 100 us each


class ScopeListener(Protocol):
    """Listener for topics and their suppression rules: the suppressor of a process."""

    def open(self, scope: Scope) -> None:
        """Handle a topic that suppresses."""
        ...

    def shut(self, scope: Scope) -> None:
        """Handle a topic that does not suppress."""
        ...

    def grew(self, scope: Scope) -> None:
        """Handle a larger partition count."""
        ...

    def rule_changed(self, scope: Scope) -> None:
        """Handle a new key rule of a topic."""
        ...

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """Handle a topic that was recreated."""
        ...


class Compiler:
    """Compiler of routes. A topic keeps its scope when its policy changes.

    Args:
        json_max_depth: Maximum nesting of JSON documents.
        namespace: Namespace of the suppression state.
        key_max_bytes: Maximum length of an event's key, in bytes.
        listener: Returns the listener for scopes; None without Redis: routes then have no scope.
    """

    def __init__(
        self,
        json_max_depth: int,
        namespace: str,
        key_max_bytes: int = KEY_MAX_BYTES,
        listener: Callable[[], ScopeListener | None] | None = None,
    ) -> None:
        self._json_max_depth = json_max_depth
        self._key_max_bytes = key_max_bytes
        self._namespace = namespace
        self._scopes: dict[str, Scope] = {}
        self._listener = listener

    def __call__(
        self, policy: TopicPolicy, state: TopicState, held: TopicState | None = None
    ) -> Route:
        """Compile a route.

        Args:
            policy: Policy of the topic.
            state: State of the topic.
            held: Held topic that its events go to first; the coalescer then compares them.
        """
        is_compared = held is None and policy.suppress != "off"
        rules = bytes.fromhex(fingerprint(policy)) if is_compared else None
        digester = None if rules is None else Digester(rules)
        comparison = None
        if rules is not None and policy.suppress == "canonical":
            comparison = Comparison(rules, policy.ignore, policy.canonical_max_bytes)
        check = scanner = None
        if policy.schema is not None or comparison is not None:
            check = ContentCheck(policy.schema, comparison)
        depth, key_max = self._json_max_depth, self._key_max_bytes
        if policy.schema is None:
            scanner = scanner_for(policy, held or state, depth, comparison or digester, key_max)
        return Route(
            policy,
            state,
            KeyReader.parse(policy.key, key_max),
            depth,
            digest=None if digester is None else digester.digest,
            scope=self._scope(policy, state) if held is None else None,
            check=check,
            held=held,
            scanner=scanner,
            key_max_bytes=key_max,
        )

    def _scope(self, policy: TopicPolicy, state: TopicState) -> Scope | None:
        listener = None if self._listener is None else self._listener()
        if listener is None:
            return None
        rule, old = key_rule(policy), self._scopes.get(state.name)
        scope = old
        if scope is None or scope.topic_id != state.topic_id:
            scope = Scope(state.name, state.topic_id, state.partitions, rule, self._namespace)
            self._scopes[state.name] = scope
            if old is not None:
                listener.scope_changed(old, scope)
        if scope.partitions < state.partitions:
            scope.partitions = state.partitions
            listener.grew(scope)
        if scope.rule != rule:
            scope.rule = rule
            listener.rule_changed(scope)
        if policy.suppress == "off":
            listener.shut(scope)
        else:
            listener.open(scope)
        return scope


class Routes:
    """Active routes by topic. Only existing topics are cached, so clients cannot grow the cache.

    Args:
        policies: Policies of the configuration.
        topics: Topics of the clusters.
        compile_route: Compiles a route.
        holds: Whether events of coalescing topics go to their held topics. False in the
            coalescer, which publishes to the topics themselves.
    """

    def __init__(
        self,
        policies: PolicyTable,
        topics: Topics,
        compile_route: Compile,
        *,
        holds: bool = True,
    ) -> None:
        self._holds = holds
        self._policies = policies
        self._topics = topics
        self._compile = compile_route
        self.state_of: Callable[[str], TopicState | None] = topics.get
        self._routes: dict[str, Route] = {}
        self._while_spooled: dict[str, Route] = {}

    def find(self, topic: str) -> Route:
        """Return the topic's route.

        Raises:
            Refused: The topic is unknown, or Kafka's state of it is not available.
        """
        state = self._topics.get(topic)
        before = self._routes.get(topic)
        if before is not None and before.state is state:
            return before
        policy = self._policies.match(topic)
        if policy is None:
            self._routes.pop(topic, None)
            detail = f"no topic pattern of the configuration matches {brief(topic)}"
            raise Refused(Failure(Reason.UNKNOWN_TOPIC, detail))
        if state is None or state.cluster != policy.cluster:
            self._routes.pop(topic, None)
            raise Refused(self._topics.missing_reason(topic))
        held = self._topics.get(held_topic(topic))
        if not is_held(policy, held):
            route = self._compile(policy, state)
        elif self._holds:
            route = self._compile(as_held(policy), state, self._held(topic, policy, held))
        else:
            route = self._compile(as_held(policy), state)
        if before is not None:
            route.requests = before.requests
        self._routes[topic] = route
        return route

    def while_spooled(self, topic: str) -> Route:
        """Return the topic's route while the spool contains events of it.

        New events go behind the spooled ones, as single records of the topic itself. They use
        neither the held topic nor oversize strategies, whatever the configuration now says.

        Raises:
            Refused: The topic takes no events.
        """
        route = self.find(topic)
        if route.held is None and not route.strategies:
            return route
        before = self._while_spooled.get(topic)
        if before is not None and before.state is route.state:
            return before
        compiled = self._compile(as_held(route.policy), route.state)
        compiled.is_behind = bool(route.strategies)
        self._while_spooled[topic] = compiled
        return compiled

    def scope_of(self, topic: str) -> Scope | None:
        """Return the topic's active suppression scope, if it has one."""
        route = self._routes.get(topic)
        return None if route is None else route.scope

    def facts_of(self, topic: str) -> int:
        """Return N if facts of one in N events of the topic are recorded; 0 if none are."""
        route = self._routes.get(topic)
        return 0 if route is None else route.facts

    def compared(self, topic: str) -> Scope | None:
        """Return the scope in which the topic's records are compared, here or by the coalescer.

        Returns:
            The scope; None if the records are not compared.

        Raises:
            Refused: The topic takes no events.
        """
        route = self.find(topic)
        if route.held is not None:
            route = self._compile(route.policy, route.state)
        return None if route.digest is None else route.scope

    def _held(self, topic: str, policy: TopicPolicy, held: TopicState | None) -> TopicState:
        if held is None or not is_there(policy, held):
            name = held_topic(topic)
            self._topics.missing_reason(name)  # this schedules a refresh of the topic
            detail = (
                f"{topic} coalesces, but cluster {policy.cluster} has no topic {name} to hold its "
                "events: run `headgate init --config F`"
            )
            raise Refused(Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=_RETRY_AFTER_S))
        return held

    def forget(self, topic: str) -> None:
        """Drop a topic's cached routes because their policy or state has changed."""
        self._routes.pop(topic, None)
        self._while_spooled.pop(topic, None)

    def prepare(self, topics: Iterable[str]) -> None:
        """Compile the routes of topics, so that scopes exist before the first event."""
        for topic in topics:
            with suppress(Refused):
                self.find(topic)

    async def prepare_in_turns(self, topics: Iterable[str]) -> None:
        """Compile the routes of many topics, and yield to the event loop in between."""
        for number, topic in enumerate(topics, start=1):
            self.prepare((topic,))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def replace(self, policies: PolicyTable) -> None:
        """Activate a reloaded configuration for all topics at once."""
        self._policies = policies
        self._routes, self._while_spooled = {}, {}


# ---- the gate itself


_NO_SIMILAR = "GET /topics lists the topics that you may write to"
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
    """Checks of whether a topic takes an event now.

    Args:
        routes: Active routes.
        full: Returns the reason for which a held topic takes no more events now, or None.
        is_spooled: Returns whether the spool has events of a topic or takes its new ones. None: no
            spool.
        similar: Finds the topic that a wrong name may mean. None: answers contain no suggestion.
    """

    def __init__(
        self,
        routes: Routes,
        full: Callable[[str], Failure | None] = lambda held: None,
        is_spooled: Callable[[str], bool] | None = None,
        similar: SimilarTopics | None = None,
    ) -> None:
        self.routes = routes
        self._full = full
        self._is_spooled = is_spooled
        self._similar = similar

    def open(self, topic: str, *, needs_offset: bool = False) -> Route:
        """Return the route by which the topic takes an event now.

        Args:
            topic: Topic of the event.
            needs_offset: Whether the answer must contain the record's offset. Held and spooled
                events have none.

        Raises:
            Refused: The topic takes no events now.
        """
        if self._is_spooled is not None and self._is_spooled(topic):
            # New events go behind spooled ones, whatever the configuration says.
            route = self.routes.while_spooled(topic)
            if needs_offset:
                raise Refused(_SPOOLS if route.policy.spool else _STILL_SPOOLED)
            return route
        route = self.routes.find(topic)
        if route.held is not None:
            failure = refusal_of(route.policy, route.held) or self._full(route.held.name)
            if failure is None and needs_offset:
                failure = _NO_OFFSET
            if failure is not None:
                raise Refused(failure)
        elif needs_offset and route.policy.spool:
            raise Refused(_SPOOLS)
        return route

    def find_route(self, topic: str) -> Route:
        """Return the topic's route for requests without events, even if it takes no events now.

        The end of a burst is such a request: a full held topic must take it, since it empties it.

        Raises:
            Refused: The topic is unknown (unknown_topic), or Kafka is not available
                (kafka_unavailable).
        """
        return self.routes.find(topic)

    def with_suggestion(
        self, failure: Failure, topic: str, may_post: Callable[[str], bool]
    ) -> Failure:
        """Return the failure; if the topic is unknown, with a similar topic or the list's path.

        Args:
            failure: Why the topic takes no event.
            topic: The name that the client sent.
            may_post: Returns whether the caller may write to a topic. No other topic is named.
        """
        if failure.reason is not Reason.UNKNOWN_TOPIC or self._similar is None:
            return failure
        meant = self._similar.find(topic, may_post)
        hint = _NO_SIMILAR if meant is None else did_you_mean(meant)
        return failure._replace(detail=f"{failure.detail}. {hint}")
