"""What can be said of a valid configuration without asking Kafka or Redis."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qs, urlsplit

from headgate.check.finding import Finding, ok, warn
from headgate.check.paths import judge_paths
from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.config.names import dotted
from headgate.config.origins import is_file_line
from headgate.config.settings import ProducerSettings, Settings
from headgate.core.topics.globs import Globs, is_glob, overlap
from headgate.core.topics.policy import TopicPolicy

_NOT_EVERYWHERE = ("zstd", "lz4", "snappy")
_NEEDS_A_PACKAGE = "KafkaJS, kafka-python and aiokafka need a package for that"
_MAX_SHOWN = 20  # patterns in one finding


def judge_settings(settings: Settings, origins: Mapping[str, str]) -> Iterator[Finding]:
    """Warnings about the configuration itself, and what it asks of consumers.

    origins: as `load_with_origins` gives them.
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
    yield from judge_paths(settings)


def _http(settings: Settings) -> Iterator[Finding]:
    if settings.auth.is_open and not _is_loopback(settings.http.host):
        text = f"anybody who reaches {settings.http.host} may post: auth.mode is none"
        fix = 'Set auth.mode = "token", or http.host = "127.0.0.1".'
        if not settings.http.hosts:
            text += ", and web pages may have the browsers of such people do it"
            fix += " Against the pages http.hosts is enough."
        yield warn("auth.mode", text, fix)
    by_token = not {"token", "jwt"}.isdisjoint(settings.auth.mode)
    sends_tokens = by_token and settings.http.tls_cert_file is None
    if sends_tokens and not _is_loopback(settings.http.host):
        fix = "Set http.tls_cert_file and tls_key_file, or end TLS in front of the gateway."
        yield warn("http", "tokens travel in clear text: no TLS here", fix)


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
        is_local = _is_loopback(parts.hostname or "localhost")
        if parts.scheme in ("redis", "redis+sentinel") and not is_local:
            yield warn(option, "the password travels in clear text", "Use rediss://.")
            break


def _has_password(parts: SplitResult) -> bool:
    return parts.password is not None or "password" in parse_qs(parts.query)


def _written(secret: str, origins: Mapping[str, str]) -> Iterator[Finding]:
    if is_file_line(origins[secret]):
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
    reaches = _Reaches([policy.pattern for policy in settings.topics])
    for name, producer in settings.producers.items():
        yield from _producer(name, producer, settings, reaches)
    has_token = any(each.token_sha256 for each in settings.producers.values())
    if settings.auth.mode == ("token",) and not has_token:
        fix = "Make one with `headgate token NAME`."
        yield warn("producers", "no producer has a token: every post is answered 401", fix)


class _Reaches:
    """Whether a producer's glob reaches any topic; of equal globs only the first is tried."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._globs = [pattern for pattern in patterns if is_glob(pattern)]
        self._names = [pattern for pattern in patterns if not is_glob(pattern)]
        self._found: dict[str, bool] = {}
        more = f" and {len(patterns) - _MAX_SHOWN} more" * (len(patterns) > _MAX_SHOWN)
        self.choice = f"{', '.join(patterns[:_MAX_SHOWN]) or 'none'}{more}"

    def any(self, glob: str) -> bool:
        if glob not in self._found:
            named = any(map(Globs((glob,)).match, self._names))
            self._found[glob] = named or any(overlap(glob, each) for each in self._globs)
        return self._found[glob]


def _producer(
    name: str, producer: ProducerSettings, settings: Settings, reaches: _Reaches
) -> Iterator[Finding]:
    option = dotted(("producers", name, "topics"))
    for glob in producer.topics:
        if not reaches.any(glob):
            text = f'"{glob}" matches nothing that a [topics] pattern allows'
            yield warn(option, text, f"One of: {reaches.choice}.")
    if settings.auth.is_open:
        return
    if "produce" in producer.roles and not producer.topics:
        yield warn(option, "it may produce, but to no topic", 'Set topics, e.g. ["orders.*"].')
    if settings.auth.mode == ("token",) and not producer.token_sha256:
        option = dotted(("producers", name, "token_sha256"))
        fix = f"Make one with `headgate token {name}`."
        yield warn(option, "it has no token and can never authenticate", fix)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
