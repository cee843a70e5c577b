"""Whether a topic's settings in Kafka suit what its policy promises."""

from collections.abc import Iterable, Iterator

from headgate.check.finding import Finding, error, warn
from headgate.config.names import dotted
from headgate.config.settings import Settings
from headgate.core.audit_columns import FACTS_TOPIC
from headgate.core.coalescing.holding import Oddity, leftover
from headgate.core.topics.globs import Globs, is_glob
from headgate.core.topics.internal_topics import facts_faults
from headgate.core.topics.policy import INTERNAL_PREFIXES, PolicyTable, TopicPolicy
from headgate.core.topics.topic import TopicState

_SHOWN_TOPICS = 10
_KAFKA_CODECS = {"none": "uncompressed"}  # what Kafka calls differently from us


def judge_topic(state: TopicState, policy: TopicPolicy, settings: Settings) -> Iterator[Finding]:
    """Everything about one topic that will bite."""
    yield from _durability(state)
    yield from _cleanup(state, policy)
    yield from _timestamps(state, policy)
    yield from _size(state, policy, settings.clusters[state.cluster].compression)
    yield from _oversize(state, policy)
    yield from _suppression(state, policy, settings.redis.max_suppress_age_ms)


def judge_unmatched(names: Iterable[str], table: PolicyTable) -> Iterator[Finding]:
    """One finding for all topics of Kafka that no policy matches."""
    unmatched = [
        name
        for name in sorted(names)
        if not name.startswith(INTERNAL_PREFIXES) and table.match(name) is None
    ]
    if unmatched:
        more = f" and {len(unmatched) - _SHOWN_TOPICS} more" * (len(unmatched) > _SHOWN_TOPICS)
        text = f"no pattern matches {', '.join(unmatched[:_SHOWN_TOPICS])}{more}"
        yield warn("topics", text, "Posts to them are answered 404; add [topics.NAME] if wanted.")


def judge_missing(settings: Settings, existing: set[str]) -> Iterator[Finding]:
    """Policies that no topic in Kafka matches. existing: all names in the ingest clusters."""
    for policy in settings.topics:
        subject = dotted(("topics", policy.pattern))
        if not is_glob(policy.pattern) and policy.pattern not in existing:
            text = f"Kafka (cluster {policy.cluster}) has no such topic: posts are answered 404"
            fix = "Create it (kafka-topics.sh --create ...); serve never creates topics."
            yield warn(subject, text, fix)
        elif is_glob(policy.pattern) and not any(map(Globs((policy.pattern,)).match, existing)):
            yield warn(subject, "matches no topic in Kafka", "Create one, or remove the section.")


def judge_held(states: Iterable[TopicState], table: PolicyTable) -> Iterator[Finding]:
    """Held topics that are there although the configuration does not ask for them."""
    for state in sorted(states):
        found = leftover(state, table)
        if found is None:
            continue
        say = error if found.oddity is Oddity.EACH_COUNTS else warn
        yield say(_subject(state), found.text, found.fix)


def judge_facts(state: TopicState | None, table: PolicyTable, cluster: str) -> Iterator[Finding]:
    """The topic of facts, if a topic asks for them. state: None = it is not there."""
    asking = [policy.pattern for policy in table.policies if policy.facts]
    if not asking:
        return
    subject = f"topic {FACTS_TOPIC}"
    if state is None:
        text = (
            f"cluster {cluster} has no such topic: the facts of {', '.join(asking)} are dropped "
            "and counted"
        )
        yield warn(subject, text, "Run `headgate init --config F`.")
        return
    for wrong in facts_faults(state):
        text, _, fix = wrong.partition(": ")
        yield error(subject, text, f"{fix.capitalize()}.")


def _subject(state: TopicState) -> str:
    return f"topic {state.name}"


def _durability(state: TopicState) -> Iterator[Finding]:
    subject = _subject(state)
    replicas, needed = state.replication_factor, state.min_insync_replicas
    if replicas < 2:
        text = "replication factor 1: one disk holds the only copy of every published event"
        yield warn(subject, text, "Create it with --replication-factor 3.")
    if needed > replicas:
        text = f"min.insync.replicas {needed} of {replicas} replicas: every write is refused"
        yield error(subject, text, f"Set min.insync.replicas to {max(1, replicas - 1)}.")
    elif replicas > 1 and needed == replicas:
        text = f"min.insync.replicas {needed} of {replicas}: one broker down stops all writes"
        yield warn(subject, text, f"Set min.insync.replicas to {replicas - 1}, or add a replica.")
    elif replicas > 1 and needed < 2:
        text = "min.insync.replicas 1: an acknowledged event may be on one broker only"
        yield warn(subject, text, "Set min.insync.replicas to 2.")
    if state.unclean_leader_election:
        text = "unclean leader election: acknowledged events may vanish, suppression may be wrong"
        yield warn(subject, text, "Set unclean.leader.election.enable=false.")


def _cleanup(state: TopicState, policy: TopicPolicy) -> Iterator[Finding]:
    subject, policies, rules = _subject(state), state.cleanup_policy, state.rules
    compacts, deletes = rules.compacts, rules.deletes
    if policy.kind == "event" and compacts:
        lag_ms = rules.compacted_after_ms
        after = f" from {lag_ms} ms on (min.compaction.lag.ms)" if lag_ms else ""
        text = (
            f'cleanup.policy={policies} on kind = "event": earlier events of a key are removed'
            f"{after}"
        )
        yield warn(subject, text, 'Set cleanup.policy=delete, or kind = "state".')
    if policy.kind == "state" and not compacts:
        text = f'cleanup.policy={policies} on kind = "state": states older than retention vanish'
        yield warn(subject, text, "Set cleanup.policy=compact.")
    if compacts and deletes and policy.kind == "state":
        text = "cleanup.policy=compact,delete: states older than retention vanish"
        yield warn(subject, text, "Set cleanup.policy=compact, or keep it if that is meant.")
    if compacts and policy.keyless == "spread":
        text = 'compacted, and keyless = "spread": Kafka refuses records without a key'
        yield error(subject, text, 'Set keyless = "reject", or cleanup.policy=delete.')


def _timestamps(state: TopicState, policy: TopicPolicy) -> Iterator[Finding]:
    if state.rules.is_stamped:
        lost = "the event's own time" if policy.timestamp == "event" else "the arrival time"
        text = f"message.timestamp.type={state.timestamp_type}: Kafka overwrites {lost}"
        yield warn(_subject(state), text, "Set message.timestamp.type=CreateTime.")


def _size(state: TopicState, policy: TopicPolicy, compression: str) -> Iterator[Finding]:
    subject = _subject(state)
    if state.compression_type not in ("producer", _KAFKA_CODECS.get(compression, compression)):
        text = (
            f"compression.type={state.compression_type}, but batches arrive as {compression}: the "
            "broker compresses each again, and measures its limit afterwards"
        )
        yield warn(subject, text, "Set compression.type=producer.")
    if policy.max_bytes is not None and policy.max_bytes > state.batch_limit_bytes:
        text = f"max_bytes = {policy.max_bytes}, but max.message.bytes={state.max_message_bytes}"
        fix = f"Raise max.message.bytes, or set max_bytes below {state.batch_limit_bytes}."
        yield warn(subject, text, fix)


def _oversize(state: TopicState, policy: TopicPolicy) -> Iterator[Finding]:
    subject = _subject(state)
    if "chunk" in policy.oversize and state.rules.compacts:
        text = (
            f"cleanup.policy={state.cleanup_policy} and chunk in oversize: compaction keeps one "
            "chunk of a set, so the strategy is left out"
        )
        yield error(subject, text, 'Set cleanup.policy=delete, or use "split" or "claim-check".')
    if "compress" in policy.oversize and state.compression_type not in ("producer", "zstd"):
        text = (
            f"compression.type={state.compression_type} and compress in oversize: the broker "
            "recompresses and measures that, so the strategy is left out"
        )
        yield warn(subject, text, "Set compression.type=producer.")


def _suppression(state: TopicState, policy: TopicPolicy, age_ms: int) -> Iterator[Finding]:
    kept_ms = state.rules.kept_ms
    if policy.suppress != "off" and kept_ms is not None and kept_ms <= age_ms:
        text = (
            f"retention.ms={state.retention_ms} is not longer than redis.max_suppress_age_ms = "
            f"{age_ms}: `unchanged` may point at a record that is gone"
        )
        yield warn(_subject(state), text, "Raise retention.ms or lower max_suppress_age_ms.")
