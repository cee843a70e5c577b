"""Findings of `headgate check`, and the rules that produce them.

The rules are pure: they judge options, the topics that Kafka has and the settings of Redis, after
others have read these.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

from headgate.audits.facts import FACTS_TOPIC, facts_faults
from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.config.checks import is_loopback
from headgate.config.settings import ProducerSettings, Settings, dotted
from headgate.model.internal_topics import Oddity, leftover
from headgate.model.policy import INTERNAL_PREFIXES, PolicyTable, TopicPolicy
from headgate.model.topics import Globs, TopicState, is_glob, overlap

_NOT_EVERYWHERE = ("zstd", "lz4", "snappy")
_NEEDS_A_PACKAGE = "KafkaJS, kafka-python and aiokafka need a package for that"
_MAX_SHOWN = 20  # patterns in one finding
_SHOWN_TOPICS = 10
_TOPIC = "topic "  # before the name in subjects
_KAFKA_CODECS = {"none": "uncompressed"}  # codecs with another name in Kafka
_SUBJECT = "redis"
_MORE_REPLICAS = (
    "Give each partition 3 replicas: kafka-reassign-partitions.sh --execute with a list of them; a "
    "new topic: --replication-factor 3."
)
_NEARLY_FULL = 0.9


class Level(StrEnum):
    """Severity: as it should be, works but will cause trouble, or does not work."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


class Finding(NamedTuple):
    """The result of one check; `fix` is empty for `ok`."""

    level: Level
    subject: str
    text: str
    fix: str = ""


def ok(subject: str, text: str) -> Finding:
    """Return a finding that all is as it should be."""
    return Finding(Level.OK, subject, text)


def warn(subject: str, text: str, fix: str) -> Finding:
    """Return a finding about something that works, but will cause trouble."""
    return Finding(Level.WARN, subject, text, fix)


def error(subject: str, text: str, fix: str) -> Finding:
    """Return a finding about something that does not work."""
    return Finding(Level.ERROR, subject, text, fix)


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, with one for all subjects that only differ in their name."""
    subjects: dict[Finding, list[str]] = {}
    for finding in findings:
        subjects.setdefault(finding._replace(subject=""), []).append(finding.subject)
    return [finding._replace(subject=_joined(names)) for finding, names in subjects.items()]


def _joined(names: Sequence[str]) -> str:
    if len(names) > 1 and all(name.startswith(_TOPIC) for name in names):
        names = [f"topics {names[0].removeprefix(_TOPIC)}", *(n[len(_TOPIC) :] for n in names[1:])]
    more = f" and {len(names) - _SHOWN_TOPICS} more" * (len(names) > _SHOWN_TOPICS)
    return f"{', '.join(names[:_SHOWN_TOPICS])}{more}"


def judge_options(settings: Settings, origins: Mapping[str, str]) -> Iterator[Finding]:
    """Yield warnings about the configuration itself, and its requirements on consumers.

    Args:
        settings: The configuration.
        origins: The origin of each value, as `load_with_origins` returns it.
    """
    yield from _http(settings)
    yield from _budget(settings)
    for name, cluster in settings.clusters.items():
        yield from _cluster(name, cluster, origins)
    yield from _redis(settings)
    yield from _redis_password(settings.redis, origins)
    for policy in settings.topics:
        yield from _topic(policy, settings)
    if not settings.topics:
        yield warn("topics", "none: every post is answered unknown_topic", "Add [topics.NAME].")
    yield from _producers(settings)


def _http(settings: Settings) -> Iterator[Finding]:
    if settings.auth.is_open and not is_loopback(settings.http.host):
        text = (
            f'no authentication: auth.mode is "none" and the gateway listens on '
            f"{settings.http.host}, so every client that can connect may post events"
        )
        fix = 'Set auth.mode = "token", or http.host = "127.0.0.1".'
        if not settings.http.hosts:
            text += ". Web pages can also post through the browser of such a client"
            fix += " To stop only the web pages, set http.hosts."
        yield warn("auth.mode", text, fix)
    by_token = not {"token", "jwt"}.isdisjoint(settings.auth.mode)
    sends_tokens = by_token and settings.http.tls_cert_file is None
    if sends_tokens and not is_loopback(settings.http.host):
        fix = "Set http.tls_cert_file and tls_key_file, or end TLS in front of the gateway."
        yield warn("http", "tokens travel in clear text: no TLS here", fix)
    yield from _ports(settings)


def _ports(settings: Settings) -> Iterator[Finding]:
    """Yield ports that two programs of one machine cannot share; all listen on `http.host`."""
    http, coalescer = settings.http, settings.coalescer
    ports = {"http.port": http.port, "http.management_port": http.management_port}
    ports["monitor.port"] = settings.monitor.port
    if coalescer.port is not None:
        ports["coalescer.port"] = coalescer.port
    users: dict[int, str] = {}
    for option, port in ports.items():
        other = users.setdefault(port, option)
        if other != option and option != "http.management_port":  # this one may equal http.port
            text = f"{port} is also {other}: on one machine the second program cannot listen there"
            yield warn(option, text, f"Set {option} to another port.")
    if http.port == http.management_port and not is_loopback(http.host):
        text = (
            f"{http.port} is also http.port: on {http.host}, every client that can post events "
            "can also reach the metrics, the console and the control plane"
        )
        fix = "Set it to a port that only operators can connect to."
        yield warn("http.management_port", text, fix)


def _budget(settings: Settings) -> Iterator[Finding]:
    http, admission = settings.http, settings.admission
    pairs = (
        ("bytes", admission.in_flight_max_bytes, "http.body_max_bytes", http.body_max_bytes),
        ("events", admission.in_flight_max_events, "http.batch_max_events", http.batch_max_events),
    )
    for unit, budget, option, largest in pairs:
        if budget // http.workers < largest:
            text = f"{budget} over {http.workers} worker(s) is less than {option} = {largest}"
            fix = f"Set at least {largest * http.workers}; large requests get in only when idle."
            yield warn(f"admission.in_flight_max_{unit}", text, fix)


def _cluster(name: str, cluster: ClusterSettings, origins: Mapping[str, str]) -> Iterator[Finding]:
    path = ("clusters", name)
    if cluster.security_protocol == "SASL_PLAINTEXT":
        option = dotted((*path, "security_protocol"))
        yield warn(option, "the password travels in clear text", 'Use "SASL_SSL".')
    for secret in ("sasl_password", "sasl_oauth_client_secret"):
        if getattr(cluster, secret) is not None:
            yield from _written(dotted((*path, secret)), origins)
    yield from _compression(dotted((*path, "compression")), cluster.compression)


def _compression(option: str, codec: str) -> Iterator[Finding]:
    if codec in ("gzip", "lz4"):
        text = f"{codec} takes 2-5 times the processor time of zstd"
        yield warn(option, text, 'Use "zstd" if every consumer can read it.')
    if codec in _NOT_EVERYWHERE:
        text = f"{codec}: every consumer must be able to read it; {_NEEDS_A_PACKAGE}"
        yield ok(option, text)


def _redis(settings: Settings) -> Iterator[Finding]:
    suppressing = any(policy.suppress != "off" for policy in settings.topics)
    clusters = settings.clusters.values()
    for url in settings.redis.listed:
        address = urlsplit(url).netloc.rpartition("@")[2]
        for name, cluster in settings.clusters.items():
            if address in cluster.bootstrap_servers:
                option = "redis.urls" if settings.redis.urls else "redis.url"
                text = f"{address} is a Kafka broker, by {dotted(('clusters', name))}"
                yield error(
                    option, text, "Name the host and port of Redis; its usual port is 6379."
                )
    needed = 2 * max(each.delivery_timeout_ms for each in clusters if each.tier == "ingest")
    if suppressing and settings.redis.quarantine_ms < needed:
        text = (
            f"{settings.redis.quarantine_ms} ms is less than 2 x delivery_timeout_ms: a record of "
            "a dead gateway may land after the quarantine, and a change may be taken for unchanged"
        )
        yield warn("redis.quarantine_ms", text, f"Set at least {needed} in production.")


def _redis_password(redis: RedisSettings, origins: Mapping[str, str]) -> Iterator[Finding]:
    option = "redis.url" if redis.url is not None else "redis.urls"
    with_password = [parts for parts in map(urlsplit, redis.listed) if _has_password(parts)]
    if with_password:
        yield from _written(option, origins)
    for parts in with_password:
        is_local = is_loopback(parts.hostname or "localhost")
        if parts.scheme in ("redis", "redis+sentinel") and not is_local:
            yield warn(option, "the password travels in clear text", "Use rediss://.")
            break


def _has_password(parts: SplitResult) -> bool:
    return parts.password is not None or "password" in parse_qs(parts.query)


def _written(secret: str, origins: Mapping[str, str]) -> Iterator[Finding]:
    if re.fullmatch(r".+:\d+", origins[secret]):  # a line of the configuration file
        fix = f"Use {secret.rpartition('.')[2]}_file or the environment."
        yield warn(secret, "a password in the configuration file", fix)


def _topic(policy: TopicPolicy, settings: Settings) -> Iterator[Finding]:
    path = ("topics", policy.pattern)
    if policy.suppress != "off" and policy.kind == "event":
        text = "an event that repeats the key's last one is dropped, even if it happened again"
        fix = 'Set kind = "state" if records are states, else suppress = "off".'
        yield warn(dotted((*path, "suppress")), text, fix)
    if policy.redis_loss == "refuse" and policy.suppress == "off" and policy.dedupe_ttl_s is None:
        text = "without suppress and dedupe_ttl_s it only concerns requests with Idempotency-Key"
        fix = "Remove it, or set suppress or dedupe_ttl_s."
        yield warn(dotted((*path, "redis_loss")), text, fix)
    if policy.dedupe_ttl_s is not None and policy.dedupe_ttl_s * 1000 < settings.redis.claim_ms:
        text = (
            f"{policy.dedupe_ttl_s} s is less than redis.claim_ms = {settings.redis.claim_ms}: "
            "a retry after a gateway's death may come when the first result is forgotten"
        )
        yield warn(dotted((*path, "dedupe_ttl_s")), text, "Set at least some minutes.")
    if "compress" in policy.oversize:
        text = f"compress writes zstd: every consumer must be able to read it; {_NEEDS_A_PACKAGE}"
        yield ok(dotted((*path, "oversize")), text)
    if policy.max_bytes is not None and policy.max_bytes > settings.http.body_max_bytes:
        text = f"{policy.max_bytes} is more than http.body_max_bytes: no such body is read"
        fix = "Raise http.body_max_bytes or lower this."
        yield warn(dotted((*path, "max_bytes")), text, fix)


def _producers(settings: Settings) -> Iterator[Finding]:
    patterns = _TopicPatterns([policy.pattern for policy in settings.topics])
    for name, producer in settings.producers.items():
        yield from _producer(name, producer, settings, patterns)
    has_token = any(each.token_sha256 for each in settings.producers.values())
    if settings.auth.mode == ("token",) and not has_token:
        fix = "Make one with `headgate token NAME`."
        yield warn("producers", "no producer has a token: every post is answered 401", fix)


class _TopicPatterns:
    """The patterns of topics, to find globs of producers that match none of them."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._globs = [pattern for pattern in patterns if is_glob(pattern)]
        self._names = [pattern for pattern in patterns if not is_glob(pattern)]
        self._tried: dict[str, bool] = {}
        more = f" and {len(patterns) - _MAX_SHOWN} more" * (len(patterns) > _MAX_SHOWN)
        self.choice = f"{', '.join(patterns[:_MAX_SHOWN]) or 'none'}{more}"

    def overlap(self, glob: str) -> bool:
        """Return whether a topic can match both; each different glob is tried once."""
        if glob not in self._tried:
            named = any(map(Globs((glob,)).match, self._names))
            self._tried[glob] = named or any(overlap(glob, each) for each in self._globs)
        return self._tried[glob]


def _producer(
    name: str, producer: ProducerSettings, settings: Settings, patterns: _TopicPatterns
) -> Iterator[Finding]:
    option = dotted(("producers", name, "topics"))
    for glob in producer.topics:
        if not patterns.overlap(glob):
            text = f'"{glob}" matches nothing that a [topics] pattern allows'
            yield warn(option, text, f"One of: {patterns.choice}.")
    if settings.auth.is_open:
        return
    if "produce" in producer.roles and not producer.topics:
        yield warn(option, "it may produce, but to no topic", 'Set topics, e.g. ["orders.*"].')
    if settings.auth.mode == ("token",) and not producer.token_sha256:
        option = dotted(("producers", name, "token_sha256"))
        fix = f"Make one with `headgate token {name}`."
        yield warn(option, "it has no token and can never authenticate", fix)


def judge_topic(state: TopicState, policy: TopicPolicy, settings: Settings) -> Iterator[Finding]:
    """Yield everything about a topic in Kafka that will cause trouble with its policy."""
    yield from _durability(state)
    yield from _cleanup(state, policy)
    yield from _timestamps(state, policy)
    yield from _size(state, policy, settings.clusters[state.cluster].compression)
    yield from _oversize(state, policy)
    yield from _suppression(state, policy, settings.redis.max_suppress_age_ms)


def judge_unmatched(existing: Iterable[str], table: PolicyTable) -> Iterator[Finding]:
    """Yield one finding for all topics of Kafka that no policy matches.

    It is no warning: a cluster has topics of other programs.
    """
    unmatched = [
        name
        for name in sorted(existing)
        if not name.startswith(INTERNAL_PREFIXES) and table.match(name) is None
    ]
    if unmatched:
        more = f" and {len(unmatched) - _SHOWN_TOPICS} more" * (len(unmatched) > _SHOWN_TOPICS)
        names = f"{', '.join(unmatched[:_SHOWN_TOPICS])}{more}"
        yield ok("topics", f"no pattern matches {names}: posts to them are answered 404")


def judge_missing(settings: Settings, existing: set[str]) -> Iterator[Finding]:
    """Yield policies that no topic in Kafka matches.

    Args:
        settings: The configuration.
        existing: All names of topics in the ingest clusters.
    """
    for policy in settings.topics:
        subject = dotted(("topics", policy.pattern))
        if not is_glob(policy.pattern) and policy.pattern not in existing:
            text = f"Kafka (cluster {policy.cluster}) has no such topic: posts are answered 404"
            fix = "Create it (kafka-topics.sh --create ...); serve never creates topics."
            yield warn(subject, text, fix)
        elif is_glob(policy.pattern) and not any(map(Globs((policy.pattern,)).match, existing)):
            yield warn(subject, "matches no topic in Kafka", "Create one, or remove the section.")


def judge_held(states: Iterable[TopicState], table: PolicyTable) -> Iterator[Finding]:
    """Yield topics of held events that exist although no topic of the configuration coalesces."""
    for state in sorted(states):
        unused = leftover(state, table)
        if unused is not None:
            finding = error if unused.oddity is Oddity.EACH_COUNTS else warn
            yield finding(_subject(state), unused.text, unused.fix)


def judge_facts(state: TopicState | None, table: PolicyTable, cluster: str) -> Iterator[Finding]:
    """Yield faults of the topic of facts if a topic has facts; `state` is None if it is missing."""
    with_facts = [policy.pattern for policy in table.policies if policy.facts]
    if not with_facts:
        return
    subject = f"topic {FACTS_TOPIC}"
    if state is None:
        text = (
            f"cluster {cluster} has no such topic: the facts of {', '.join(with_facts)} are "
            "dropped and counted"
        )
        yield warn(subject, text, "Run `headgate init --config F`.")
        return
    for fault in facts_faults(state):
        text, _, fix = fault.partition(": ")
        yield error(subject, text, f"{fix.capitalize()}.")


def _subject(state: TopicState) -> str:
    return f"{_TOPIC}{state.name}"


def _durability(state: TopicState) -> Iterator[Finding]:
    subject = _subject(state)
    replicas, needed = state.replication_factor, state.min_insync_replicas
    if replicas < 2:
        text = "replication factor 1: one disk holds the only copy of every published event"
        yield warn(subject, text, _MORE_REPLICAS)
    if needed > replicas:
        text = f"min.insync.replicas {needed} of {replicas} replicas: every write is refused"
        yield error(subject, text, f"Set min.insync.replicas to {max(1, replicas - 1)}.")
    elif replicas == 2:
        yield _durability_of_two(subject, needed)
    elif replicas > 1 and needed == replicas:
        text = f"min.insync.replicas {needed} of {replicas}: one broker down stops all writes"
        yield warn(subject, text, f"Set min.insync.replicas to {replicas - 1}, or add a replica.")
    elif replicas > 1 and needed < 2:
        text = "min.insync.replicas 1: an acknowledged event may be on one broker only"
        yield warn(subject, text, "Set min.insync.replicas to 2.")
    if state.unclean_leader_election:
        text = "unclean leader election: acknowledged events may vanish, suppression may be wrong"
        yield warn(subject, text, "Set unclean.leader.election.enable=false.")


def _durability_of_two(subject: str, needed: int) -> Finding:
    """Return the trade-off of a topic with two replicas; no min.insync.replicas is right."""
    if needed == 2:
        text = "min.insync.replicas 2 of 2: one broker down stops all writes"
        fix = (
            "Add a third replica, or set min.insync.replicas to 1: then writes go on, but an "
            "acknowledged event may be on one broker only."
        )
        return warn(subject, text, fix)
    text = (
        "min.insync.replicas 1 of 2: writes go on while one broker is down, but an acknowledged "
        "event may be on one broker only; a third replica would prevent that"
    )
    return ok(subject, text)


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


def judge_redis(
    info: Mapping[str, Any], config: Mapping[str, str] | None, subject: str = _SUBJECT
) -> Iterator[Finding]:
    """Yield everything in which a Redis does not suit suppression.

    Args:
        info: The answer of INFO.
        config: The answer of CONFIG GET; None if that is forbidden.
        subject: The server's name in findings.
    """
    for finding in (
        *_eviction(info, config),
        *_memory(info),
        *_persistence(info, config),
        *_role(info),
    ):
        yield finding._replace(subject=subject)


def judge_runs(runs: Mapping[str, str | None]) -> Iterator[Finding]:
    """Yield names of the same server.

    Args:
        runs: The id of the Redis process by the server's name; None if it is unknown.
    """
    names: dict[str, str] = {}
    for name, run_id in runs.items():
        other = names.setdefault(run_id, name) if run_id is not None else name
        if other != name:
            text = f"the same server as {other}: databases of one server share its processor"
            yield warn(name, text, "Name each server once in redis.urls.")


def _role(info: Mapping[str, Any]) -> Iterator[Finding]:
    if info.get("role") not in (None, "master"):
        yield error(_SUBJECT, f"it is a {info['role']}: no writes", "Name the master in redis.url.")
    if str(info.get("cluster_enabled", "0")) == "1":
        text = "Redis Cluster: scripts with keys of several slots are refused"
        yield error(_SUBJECT, text, "Use a single Redis (with a replica, if you like).")


def _eviction(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    policy = (config or {}).get("maxmemory-policy") or info.get("maxmemory_policy")
    if policy is None:
        yield warn(_SUBJECT, "maxmemory-policy cannot be read", "Make sure it is noeviction.")
    elif policy != "noeviction":
        text = f"maxmemory-policy {policy}: Redis may evict the state of publishes in progress"
        yield warn(_SUBJECT, text, "Set maxmemory-policy noeviction.")


def _memory(info: Mapping[str, Any]) -> Iterator[Finding]:
    used, maximum = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not maximum or used < maximum * _NEARLY_FULL or info.get("maxmemory_policy") != "noeviction":
        return
    figures = f"{used} bytes are used of maxmemory {maximum}, with noeviction"
    fix = "Raise maxmemory."
    if used < maximum:
        yield warn(_SUBJECT, f"memory is nearly full: {figures}", fix)
    else:
        text = (
            f"memory is full: {figures}. Nothing is suppressed of keys that are not known yet, "
            "and requests are not remembered"
        )
        yield error(_SUBJECT, text, fix)


def _persistence(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    if str(info.get("aof_enabled", "0")) == "1":
        text = "appendonly is on: it costs disk writes, and a restart brings old states back"
        yield warn(_SUBJECT, text, "Set appendonly no; nothing in it is worth keeping.")
    if config is None:
        text = "the snapshot rule (save) cannot be read, as CONFIG is forbidden; it should be off"
        yield ok(_SUBJECT, text)
    elif config.get("save"):
        text = f'snapshots are on (save "{config["save"]}"): a restart brings old states back'
        yield warn(_SUBJECT, text, 'Set save ""; nothing in it is worth keeping.')
