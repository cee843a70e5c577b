"""Finding a topic's route."""

from dataclasses import replace

import pytest

from headgate.formats.json_text import KeyReader
from headgate.ingest.gate import Compiler, Routes
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.route import Route
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState
from support.gateway.fakes import FakeTopics, policy, topic_state


class Compiled:
    """Counts what is compiled."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, chosen: TopicPolicy, state: TopicState) -> Route:
        self.count += 1
        return Route(chosen, state, KeyReader.parse(chosen.key), 128)


def test_a_route_is_compiled_once_until_the_topic_changes() -> None:
    topics, compiled = FakeTopics(topic_state()), Compiled()
    routes = Routes(PolicyTable([policy()]), topics, compiled)
    first = routes.find("orders")
    assert routes.find("orders") is first
    topics.states["orders"] = topic_state(partitions=6)
    assert routes.find("orders").state.partitions == 6
    assert compiled.count == 2


def test_a_reload_is_in_force_for_all_topics_at_once() -> None:
    routes = Routes(PolicyTable([policy()]), FakeTopics(topic_state()), Compiled())
    assert routes.find("orders").policy.key == ()
    routes.replace(PolicyTable([policy(key=("/id",))]))
    assert routes.find("orders").policy.key == ("/id",)


@pytest.mark.parametrize(
    ("topic", "detail"),
    [
        ("other", "no topic pattern of the configuration matches 'other'"),
        ("gone", "there is no topic 'gone' in Kafka: create it"),
        ("elsewhere", "there is no topic 'elsewhere' in Kafka: create it"),
    ],
)
def test_a_topic_must_match_the_configuration_and_exist(topic: str, detail: str) -> None:
    policies = PolicyTable([policy(), policy(pattern="gone"), policy(pattern="elsewhere")])
    elsewhere = topic_state("elsewhere", cluster="second")
    topics = FakeTopics(topic_state(), topic_state("other"), elsewhere)
    routes = Routes(policies, topics, Compiled())
    with pytest.raises(Refused) as caught:
        routes.find(topic)
    assert caught.value.failure.reason is Reason.UNKNOWN_TOPIC
    assert detail in caught.value.failure.detail


def test_a_cluster_that_has_not_answered_yet_does_not_make_its_topics_unknown() -> None:
    topics = FakeTopics()
    topics.away = Failure(Reason.KAFKA_UNAVAILABLE, "not yet", retry_after_s=1)
    routes = Routes(PolicyTable([policy()]), topics, Compiled())
    with pytest.raises(Refused) as caught:
        routes.find("orders")
    assert caught.value.failure is topics.away
    with pytest.raises(Refused) as caught:
        routes.find("of-no-policy")
    assert caught.value.failure.reason is Reason.UNKNOWN_TOPIC
    assert topics.missed == ["orders"]  # names that match nothing must not make it read Kafka
    topics.states["orders"] = topic_state()
    assert routes.find("orders").topic == "orders"


def test_a_deleted_topic_is_unknown_again_and_forgotten() -> None:
    topics = FakeTopics(topic_state())
    routes = Routes(PolicyTable([policy()]), topics, Compiled())
    routes.find("orders")
    del topics.states["orders"]
    for _ in range(2):
        with pytest.raises(Refused):
            routes.find("orders")
    assert routes._routes == {}


class Listener:
    """Notes what it is told of scopes."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def open(self, scope: Scope) -> None:
        self.told.append(("open", scope.topic))

    def shut(self, scope: Scope) -> None:
        self.told.append(("shut", scope.topic))

    def grew(self, scope: Scope) -> None:
        self.told.append(("grew", scope.topic, scope.partitions))

    def rule_changed(self, scope: Scope) -> None:
        self.told.append(("rule", scope.topic))

    def scope_changed(self, old: Scope, new: Scope) -> None:
        self.told.append(("changed", old.topic_id, new.topic_id))

    def take(self) -> list[tuple[object, ...]]:
        told, self.told = self.told, []
        return told


def test_a_topic_keeps_its_scope_whatever_its_policy_and_its_partitions() -> None:
    listener = Listener()
    compiler = Compiler(128, "headgate", listener=lambda: listener)
    topics = FakeTopics(topic_state(), topic_state("plain"), topic_state("of-no-policy"))
    raw = policy(suppress="raw")
    routes = Routes(PolicyTable([raw, policy(pattern="plain")]), topics, compiler)
    routes.prepare(["orders", "plain", "of-no-policy", "gone"])
    assert listener.take() == [("open", "orders"), ("shut", "plain")]
    scope = routes.find("orders").scope
    changes = [
        (replace(raw, suppress="off"), "shut"),
        (replace(raw, suppress="canonical", ignore=("/at",)), "open"),
        (replace(raw, oversize=("notify",), cloudevents="structured"), "open"),
    ]
    for changed, told in changes:
        routes.replace(PolicyTable([changed]))
        assert routes.find("orders").scope is scope
        assert listener.take() == [(told, "orders")]
    routes.replace(PolicyTable([replace(raw, key=("/other",))]))
    assert routes.find("orders").scope is scope
    assert listener.take() == [("rule", "orders"), ("open", "orders")]
    topics.states["orders"] = topic_state(partitions=6)
    assert routes.find("orders").scope is scope
    assert listener.take() == [("grew", "orders", 6), ("open", "orders")]
    topics.states["orders"] = topic_state()._replace(topic_id=b"\x09" * 16)
    new = routes.find("orders").scope
    assert new is not None
    assert new is not scope
    assert listener.take()[0] == ("changed", topic_state().topic_id, b"\x09" * 16)


def test_without_redis_there_are_no_scopes() -> None:
    topics = FakeTopics(topic_state())
    routes = Routes(PolicyTable([policy()]), topics, Compiler(128, "headgate"))
    assert routes.find("orders").scope is None


def test_a_topic_that_coalesces_has_the_coalescers_scope_to_forget() -> None:
    deals = policy(pattern="deals", kind="state", suppress="raw", coalesce_quiet_ms=100)
    topics = FakeTopics(topic_state("deals"), topic_state("headgate.held.deals"), topic_state())
    policies = PolicyTable([deals, policy()])
    compilers = [Compiler(128, "headgate", listener=Listener) for _ in range(2)]
    gateways = Routes(policies, topics, compilers[0])
    coalescers = Routes(policies, topics, compilers[1], holds=False)
    assert gateways.find("deals").scope is None
    found, theirs = gateways.compared("deals"), coalescers.find("deals").scope
    assert found is not None
    assert theirs is not None
    assert found.namespace == theirs.namespace
    assert gateways.compared("deals") is found
    assert gateways.compared("orders") is None
