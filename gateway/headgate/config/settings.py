"""The settings as the gateway uses them: one frozen dataclass a section, defaults included.

A number carries its unit in its name: `_ms`, `_bytes`, `_events`, `_per_s`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from headgate.core.option import about
from headgate.core.policy import TopicPolicy

_DAY_MS = 86_400_000
_GIBIBYTE = 1_073_741_824

Tier = Literal["ingest", "backfill"]
Compression = Literal["none", "zstd", "lz4", "snappy", "gzip"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
AuthMode = Literal["none", "token"]
Role = Literal["produce", "view", "operate"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
LogFormat = Literal["json", "text"]


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The HTTP side: where it listens, and the limits of one request."""

    host: Annotated[str, about("The address to listen on; 0.0.0.0 = every interface.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, about("The data plane's port.", least=1, most=65535)] = 8080
    management_port: Annotated[
        int,
        about(
            "The port of metrics and control plane; equal to `port` = one port for both.",
            least=1,
            most=65535,
        ),
    ] = 9090
    workers: Annotated[int, about("Processes that share the port.", least=1, most=256)] = 1
    body_max_bytes: Annotated[
        int, about("The largest request body, after decompression.", least=1024, most=_GIBIBYTE)
    ] = 16_777_216
    batch_max_events: Annotated[
        int, about("The most events in one request.", least=1, most=1_000_000)
    ] = 10_000
    json_max_depth: Annotated[
        int, about("The deepest nesting of a JSON document.", least=1, most=1024)
    ] = 128
    header_max_bytes: Annotated[
        int, about("The longest request line or single header field.", least=1024, most=1_048_576)
    ] = 8190
    request_timeout_ms: Annotated[
        int,
        about(
            "How long a request may wait for Kafka before it is answered `unknown` or 503.",
            least=100,
            most=_DAY_MS,
        ),
    ] = 30_000
    body_timeout_ms: Annotated[
        int, about("How long a request body may take to arrive.", least=100, most=_DAY_MS)
    ] = 30_000
    drain_timeout_ms: Annotated[
        int,
        about("How long a stopping gateway waits for what is under way.", least=0, most=_DAY_MS),
    ] = 25_000
    cors_origins: Annotated[
        tuple[str, ...],
        about(
            "Web origins whose pages may call the data plane; `*` = all. Empty = none (no CORS).",
            example='["https://app.example"]',
        ),
    ] = ()
    tls_cert_file: Annotated[
        str | None,
        about("Certificate chain (PEM); set = HTTPS on both ports.", example='"/etc/tls/tls.crt"'),
    ] = None
    tls_key_file: Annotated[
        str | None, about("Private key (PEM) of the certificate.", example='"/etc/tls/tls.key"')
    ] = None


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The in-flight budget of an instance, split evenly over its workers; beyond it 503."""

    in_flight_max_bytes: Annotated[
        int, about("Event bytes that may be under way at a time.", least=1024, most=64 * _GIBIBYTE)
    ] = 268_435_456
    in_flight_max_events: Annotated[
        int, about("Events that may be under way at a time.", least=1, most=100_000_000)
    ] = 100_000


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One Kafka cluster: how to reach it and how its lanes behave."""

    bootstrap_servers: Annotated[
        tuple[str, ...], about("Brokers to ask first, as host:port.", example='["127.0.0.1:9092"]')
    ]
    tier: Annotated[
        Tier, about("Whether it takes events (ingest) or holds the mirror for replays (backfill).")
    ] = "ingest"
    backfill: Annotated[
        str | None, about("The backfill cluster of this ingest cluster.", example='"main-backfill"')
    ] = None
    delivery_timeout_ms: Annotated[
        int,
        about(
            "When a lane without acknowledgement gives up: its records end as `unknown`.",
            least=1000,
            most=_DAY_MS,
        ),
    ] = 120_000
    linger_ms: Annotated[
        int,
        about("How long records gather for the next request to a broker.", least=0, most=1000),
    ] = 2
    compression: Annotated[
        Compression, about("Codec of the batches; zstd costs least, lz4 and gzip 2-5 times more.")
    ] = "zstd"
    security_protocol: Annotated[SecurityProtocol, about("Kafka's security.protocol.")] = (
        "PLAINTEXT"
    )
    sasl_mechanism: Annotated[
        SaslMechanism | None,
        about("Kafka's sasl.mechanism, needed by SASL_*.", example='"SCRAM-SHA-512"'),
    ] = None
    sasl_username: Annotated[str | None, about("The SASL user.", example='"headgate"')] = None
    sasl_password: Annotated[
        str | None,
        about("The SASL password; better by environment or file.", example='"..."', secret=True),
    ] = field(default=None, repr=False)
    ssl_cafile: Annotated[
        str | None,
        about("Certificate authorities (PEM); none = the system's.", example='"/etc/kafka/ca.pem"'),
    ] = None
    ssl_certfile: Annotated[
        str | None, about("Client certificate (PEM).", example='"/etc/kafka/client.pem"')
    ] = None
    ssl_keyfile: Annotated[
        str | None,
        about("Private key (PEM) of the client certificate.", example='"/etc/kafka/client.key"'),
    ] = None
    lane_max_bytes: Annotated[
        int,
        about(
            "Record bytes that may wait in one lane; a full lane answers 503.",
            least=1024,
            most=16 * _GIBIBYTE,
        ),
    ] = 33_554_432
    lane_stall_ms: Annotated[
        int,
        about(
            "A lane without acknowledgement for so long answers 503 at once; "
            "5 s are enough where the whole cluster is silent.",
            least=100,
            most=_DAY_MS,
        ),
    ] = 15_000  # losing a leader stalls acknowledgements for 4-11 s and then goes on
    metadata_refresh_ms: Annotated[
        int, about("How often topics and their limits are read again.", least=100, most=_DAY_MS)
    ] = 10_000


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """The state of suppression and of request identity; nothing in it is worth keeping."""

    url: Annotated[
        str | None,
        about(
            "redis://, rediss:// or unix:// URL; needed by topics that suppress or de-duplicate.",
            example='"redis://127.0.0.1:6379/0"',
            secret=True,
        ),
    ] = field(default=None, repr=False)
    timeout_ms: Annotated[
        int,
        about(
            "How long one call may take before the breaker counts a failure.", least=1, most=60_000
        ),
    ] = 500
    namespace: Annotated[str, about("The prefix of every Redis key.")] = "headgate"
    max_suppress_age_ms: Annotated[
        int,
        about(
            "An unchanged event is published again when its record is this old.",
            least=1000,
            most=30 * _DAY_MS,
        ),
    ] = 3_600_000
    quarantine_ms: Annotated[
        int,
        about(
            "How long nothing is suppressed after Redis lost its state.",
            least=1,
            most=_DAY_MS,
            derived="2 x the largest delivery_timeout_ms",
        ),
    ] = 240_000
    idempotency_ttl_ms: Annotated[
        int,
        about(
            "How long what was done under an Idempotency-Key is remembered.",
            least=1000,
            most=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    claim_ms: Annotated[
        int,
        about(
            "How long an Idempotency-Key or event id stays claimed by a process that died "
            "(`idempotency_conflict`); living ones renew their claims.",
            least=100,
            most=_DAY_MS,
        ),
    ] = 15_000


@dataclass(frozen=True, slots=True)
class BlobSettings:
    """Where values are kept that are too large for Kafka (the rung claim-check)."""

    url: Annotated[
        str | None,
        about(
            "A folder or a bucket's prefix; needed by topics with claim-check. s3:// takes the "
            "extra headgate[s3], and credentials and endpoint as AWS' own tools do.",
            example='"file:///var/lib/headgate/blobs"',
        ),
    ] = None
    uploads: Annotated[
        int, about("Values that a worker stores at a time; others wait.", least=1, most=64)
    ] = 4
    max_bytes: Annotated[
        int,
        about(
            "The largest body that goes straight to the store on topics with claim-check: those "
            "over http.body_max_bytes do, and memory holds a few megabytes of each.",
            least=1024,
            most=5 * _GIBIBYTE,  # what S3 copies inside a bucket by one call
        ),
    ] = 268_435_456


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Who may post."""

    mode: Annotated[
        AuthMode,
        about(
            "Who may post: whoever names itself a producer (none), or holders of tokens (token)."
        ),
    ] = "none"


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """One producer. Topics and roles are checked where auth.mode asks for credentials."""

    token_sha256: Annotated[
        tuple[str, ...],
        about(
            "SHA-256 (hex) of its tokens, two while one replaces the other: `headgate token NAME`."
        ),
    ] = ()
    topics: Annotated[tuple[str, ...], about("Globs of the topics it may post to.")] = ()
    quota_events_per_s: Annotated[
        int | None,
        about(
            "Events a second, per instance; more is answered 429.",
            least=1,
            most=100_000_000,
            example="1000",
        ),
    ] = None
    quota_bytes_per_s: Annotated[
        int | None,
        about(
            "Event bytes a second, per instance; more is answered 429.",
            least=1,
            most=64 * _GIBIBYTE,
            example="10485760",
        ),
    ] = None
    roles: Annotated[
        tuple[Role, ...],
        about("What it may do: post events, read the control plane (view), change it (operate)."),
    ] = ("produce",)


@dataclass(frozen=True, slots=True)
class CoalescerSettings:
    """Who publishes what coalescing topics hold: every gateway process, unless told otherwise."""

    in_gateway: Annotated[
        bool,
        about("Whether `headgate serve` coalesces; false where `headgate coalesce` runs apart."),
    ] = True
    session_timeout_ms: Annotated[
        int,
        about(
            "How long a process that died keeps its partitions of held topics.",
            least=1000,
            most=1_800_000,
        ),
    ] = 10_000
    port: Annotated[
        int | None,
        about(
            "Where `headgate coalesce` answers /live, /ready and /metrics, at http.host.",
            least=1,
            most=65_535,
            example="9091",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error."""

    level: Annotated[LogLevel, about("The least severe level that is written.")] = "INFO"
    format: Annotated[LogFormat, about("One JSON object a line, or text for people.")] = "json"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a gateway is told. `topics` keeps the order of the file."""

    http: HttpSettings = field(default_factory=HttpSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    redis: RedisSettings = field(default_factory=RedisSettings)
    blobs: BlobSettings = field(default_factory=BlobSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    producers: Mapping[str, ProducerSettings] = field(default_factory=dict)
    topics: tuple[TopicPolicy, ...] = ()
    coalescer: CoalescerSettings = field(default_factory=CoalescerSettings)
    logs: LogSettings = field(default_factory=LogSettings)
