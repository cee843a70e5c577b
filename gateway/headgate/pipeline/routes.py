"""Finds the route of a topic, compiled once for each policy and state."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from headgate.backends.base import Topics
from headgate.core.coalescing import as_held, held_topic, is_held, is_there
from headgate.core.content import Comparison, Digester, Orders
from headgate.core.keys import KEY_MAX_BYTES
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief
from headgate.core.scanning import scanner_for
from headgate.core.suppression import Scope
from headgate.core.topics.policy import PolicyTable, TopicPolicy, fingerprint, key_rule
from headgate.core.topics.route import Route
from headgate.core.topics.topic import TopicState

Compile = Callable[..., Route]
_RETRY_AFTER_S = 10
_AT_ONCE = 10  # routes, some 50 to 100 us each


class ScopeListener(Protocol):
    """Who must know what topics there are and how they are compared: a process' suppressor."""

    def open(self, scope: Scope) -> None:
        """The topic suppresses."""
        ...

    def shut(self, scope: Scope) -> None:
        """The topic suppresses nothing."""
        ...

    def grew(self, scope: Scope) -> None:
        """The scope has a larger partition count."""
        ...

    def rule_changed(self, scope: Scope) -> None:
        """The topic's events get their keys by another rule."""
        ...

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """The topic was recreated."""
        ...


class Compiler:
    """Makes routes. A topic of Kafka keeps its scope, whatever its policy.

    key_max_bytes: of an event's key.  listener: None where there is no Redis; then routes have no
    scope.
    """

    def __init__(
        self, json_max_depth: int, namespace: str, key_max_bytes: int = KEY_MAX_BYTES
    ) -> None:
        self._json_max_depth = json_max_depth
        self._key_max_bytes = key_max_bytes
        self._namespace = namespace
        self._scopes: dict[str, Scope] = {}
        self.listener: ScopeListener | None = None

    def __call__(
        self, policy: TopicPolicy, state: TopicState, held: TopicState | None = None
    ) -> Route:
        """held: the topic that its events go to first; comparing is then the coalescer's part."""
        depth, key_max = self._json_max_depth, self._key_max_bytes
        if held is not None:
            orders = _orders(policy, None)
            scanner = None if orders else scanner_for(policy, held, depth, None, key_max)
            return Route(
                policy,
                state,
                depth,
                orders=orders,
                held=held,
                scanner=scanner,
                key_max_bytes=key_max,
            )
        scope = self._scope(policy, state)
        if policy.suppress == "off":
            orders = _orders(policy, None)
            scanner = None if orders else scanner_for(policy, state, depth, None, key_max)
            return Route(
                policy,
                state,
                depth,
                scope=scope,
                orders=orders,
                scanner=scanner,
                key_max_bytes=key_max,
            )
        rules = bytes.fromhex(fingerprint(policy))
        orders = _orders(policy, rules if policy.suppress == "canonical" else None)
        digester = Digester(rules)
        compared = digester if orders is None else orders.comparison
        has_schema = policy.schema is not None
        scanner = None if has_schema else scanner_for(policy, state, depth, compared, key_max)
        return Route(
            policy,
            state,
            depth,
            digester.digest,
            scope,
            orders,
            scanner=scanner,
            key_max_bytes=key_max,
        )

    def _scope(self, policy: TopicPolicy, state: TopicState) -> Scope | None:
        listener = self.listener
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


def _orders(policy: TopicPolicy, rules: bytes | None) -> Orders | None:
    """rules: None where bytes are compared, or nothing."""
    if rules is not None:
        comparison = Comparison(rules, policy.ignore, policy.canonical_max_bytes)
        return Orders(policy.schema, comparison)
    return None if policy.schema is None else Orders(policy.schema, None)


class Routes:
    """The routes in force; only topics that exist are remembered, so clients cannot grow it.

    holds: whether events that are to be held (`core.coalescing`) go to their held topics;
    the coalescer's own routes lead past them.
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
        self._behind: dict[str, Route] = {}

    def find(self, topic: str) -> Route:
        """Raises Refused (unknown_topic)."""
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
            route.turn = before.turn
        self._routes[topic] = route
        return route

    def behind(self, topic: str) -> Route:
        """The topic's route while events of it lie in the spool: new ones go behind them, as
        single records of the topic itself.

        Neither the held topic nor a strategy for large events leads past the spool, whatever the
        configuration says by now. Raises Refused.
        """
        route = self.find(topic)
        if route.held is None and not route.strategies:
            return route
        before = self._behind.get(topic)
        if before is not None and before.state is route.state:
            return before
        behind = self._behind[topic] = self._compile(as_held(route.policy), route.state)
        behind.is_behind = bool(route.strategies)
        return behind

    def scope_of(self, topic: str) -> Scope | None:
        """The topic's suppression scope in force, if it has one."""
        route = self._routes.get(topic)
        return None if route is None else route.scope

    def facts_of(self, topic: str) -> int:
        """Of one in how many of the topic's events facts are told; 0 = of none."""
        route = self._routes.get(topic)
        return 0 if route is None else route.facts

    def compared(self, topic: str) -> Scope | None:
        """The scope in which the topic's records are compared, here or by the coalescer; None
        where they are not. Raises Refused.
        """
        route = self.find(topic)
        if route.held is not None:
            route = self._compile(route.policy, route.state)
        return None if route.digest is None else route.scope

    def _held(self, topic: str, policy: TopicPolicy, held: TopicState | None) -> TopicState:
        if held is None or not is_there(policy, held):
            name = held_topic(topic)
            self._topics.missing_reason(name)  # has it looked for soon
            detail = (
                f"{topic} coalesces, but cluster {policy.cluster} has no topic {name} to hold its "
                "events: run `headgate init --config F`"
            )
            raise Refused(Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=_RETRY_AFTER_S))
        return held

    def forget(self, topic: str) -> None:
        """What its route was compiled from has changed."""
        self._routes.pop(topic, None)
        self._behind.pop(topic, None)

    def prepare(self, topics: Iterable[str]) -> None:
        """Compile what there is now, so that scopes are known before the first event comes."""
        for topic in topics:
            with suppress(Refused):
                self.find(topic)

    async def prepare_in_turns(self, topics: Iterable[str]) -> None:
        """The same for very many, with turns of the event loop for others in between."""
        for number, topic in enumerate(topics, start=1):
            self.prepare((topic,))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def replace(self, policies: PolicyTable) -> None:
        """Put a reloaded configuration in force, for all topics at once."""
        self._policies = policies
        self._routes, self._behind = {}, {}
