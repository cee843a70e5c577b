"""The work of `headgate init`: create missing internal topics, check the others."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from headgate.audits.facts import FACTS_TOPIC, facts_faults, facts_topic
from headgate.audits.facts_log import cluster_of_facts
from headgate.config import Settings
from headgate.errors_in_words import connection_error
from headgate.kafka.options import cluster_options
from headgate.kafka.topics import READ_ERRORS, TopicReader, create_on
from headgate.model.internal_topics import (
    InternalTopic,
    faults,
    held_topics,
    on_cluster,
    replicas_on,
    topic_of,
)
from headgate.model.policy import PolicyTable
from headgate.model.topics import TopicState
from headgate.replays.offset_map import map_topic, map_topic_faults
from headgate.replays.registry import registry_faults, registry_topic

_ANSWER_S = 30.0


class ReportLine(NamedTuple):
    """One line of the report. The word is created, missing, ok or error."""

    word: str
    subject: str
    text: str

    @property
    def is_bad(self) -> bool:
        return self.word in ("error", "missing")


async def initialise(settings: Settings, *, may_create: bool) -> list[ReportLine]:
    """Create (if allowed) and check all internal topics of all clusters."""
    policies, lines = PolicyTable(settings.topics), list[ReportLine]()
    for name, cluster in settings.clusters.items():
        try:
            async with asyncio.timeout(_ANSWER_S):
                if cluster.tier == "ingest":
                    lines += await _one_cluster(settings, name, policies, may_create)
                else:
                    lines += await _backfill(settings, name, may_create)
        except READ_ERRORS as error:
            servers = ",".join(cluster.bootstrap_servers)
            why = f"{servers} does not answer, or refuses: {connection_error(error)}"
            lines.append(ReportLine("error", f"clusters.{name}.bootstrap_servers", why))
    return lines


async def _one_cluster(
    settings: Settings, cluster: str, policies: PolicyTable, may_create: bool
) -> list[ReportLine]:
    options = cluster_options(settings.clusters[cluster])
    reader = TopicReader(cluster, options)

    def is_ours(name: str) -> bool:
        if name == FACTS_TOPIC:
            return True
        policy = policies.match(topic_of(name) or name)
        return policy is not None and policy.cluster == cluster

    try:
        states = await reader.read(is_ours, {})
        topics = {name: topic for name, topic in states.items() if policies.match(name) is not None}
        planned, unplanned = held_topics(policies, topics)
        own = on_cluster(planned, cluster)
        facts = facts_topic(policies, topics, cluster)
        if facts is not None and cluster == cluster_of_facts(settings):
            own.append(facts)
        missing = [topic for topic in own if topic.name not in states]
        if may_create and missing:
            await create_on(options, missing)
    finally:
        await reader.close()
    lines = [
        ReportLine("error", topic.topic, topic.why)
        for topic in unplanned
        if (policy := policies.match(topic.topic)) is not None and policy.cluster == cluster
    ]
    refresh_ms = settings.clusters[cluster].metadata_refresh_ms
    for topic in missing:
        line = _missing(topic, may_create)
        is_held = may_create and topic_of(topic.name) is not None
        lines.append(line._replace(text=line.text + _seen_by(refresh_ms)) if is_held else line)
    lines += [_existing(topic, states) for topic in own if topic.name in states]
    return lines


async def _backfill(settings: Settings, cluster: str, may_create: bool) -> list[ReportLine]:
    options = cluster_options(settings.clusters[cluster])
    reader = TopicReader(cluster, options)
    try:
        states = await reader.read(lambda _: True, {})
        replicas = replicas_on(reader.brokers())
        wanted = [registry_topic(cluster, replicas), map_topic(cluster, replicas)]
        missing = [topic for topic in wanted if topic.name not in states]
        if may_create and missing:
            await create_on(options, missing)
    finally:
        await reader.close()
    lines = [_missing(topic, may_create) for topic in missing]
    for topic, judge in zip(wanted, (registry_faults, _map_faults), strict=True):
        if (state := states.get(topic.name)) is not None:
            wrong = "; ".join(judge(state))
            lines.append(
                ReportLine("error" if wrong else "ok", topic.name, wrong or "as it must be")
            )
    return lines


def _map_faults(state: TopicState) -> list[str]:
    return map_topic_faults(state.partitions, state.cleanup_policy)


def _missing(topic: InternalTopic, may_create: bool) -> ReportLine:
    settings = ", ".join(f"{name}={value}" for name, value in topic.configs.items())
    text = f"{topic.partitions} partitions, replication factor {topic.replication_factor}, "
    return ReportLine("created" if may_create else "missing", topic.name, text + settings)


def _seen_by(refresh_ms: int) -> str:
    """Return a note: between the first and the last gateway that sees a topic they do not agree."""
    return (
        f"; every gateway sees it within {refresh_ms} ms and holds from then on: one that has no "
        "coalesce_quiet_ms in force publishes until then, perhaps past what another holds"
    )


def _existing(topic: InternalTopic, states: Mapping[str, TopicState]) -> ReportLine:
    state, of = states[topic.name], topic_of(topic.name)
    if of is None:
        wrong = facts_faults(state)
    else:
        wrong = faults(topic, state, states[of].max_message_bytes)
    if wrong:
        return ReportLine("error", topic.name, "; ".join(wrong))
    text = f"{state.partitions} partitions, as they are"
    if of is not None and state.partitions != topic.partitions:
        text += f" (coalesce_partitions = {topic.partitions} is for new topics: they never change)"
    return ReportLine("ok", topic.name, text)
