"""Settings as the gateway uses them: a frozen dataclass for each section, with the defaults.

A number carries its unit in its name: `_ms`, `_bytes`, `_events`, `_per_s`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from headgate.config.backend_settings import (
    BlobSettings,
    ClusterSettings,
    RedisSettings,
    SpoolSettings,
)
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.policy import TopicPolicy, about

_DAY_MS = 86_400_000
_YEAR_S = 365 * 86_400
_LONGEST_DELAY_MS = 600_000
_GIBIBYTE = 1_073_741_824

AuthMode = Literal["none", "token", "jwt", "mtls"]
# Only asymmetric ones: a party that can check a signature of HS256 can also make one.
JwtAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
CertificateName = Literal["cn", "uri", "dns", "email"]
TlsVersion = Literal["1.2", "1.3"]
ClientCertificates = Literal["optional", "required"]
Role = Literal["produce", "view", "operate"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
LogFormat = Literal["json", "text"]


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Authentication of callers."""

    mode: Annotated[
        tuple[AuthMode, ...],
        about(
            "Ways to authenticate callers, one or several: no authentication (none, only alone), "
            "a token from the configuration (token), a signed token of an issuer (jwt), a TLS "
            "client certificate (mtls)."
        ),
    ] = ("none",)
    failed_attempts_per_minute: Annotated[
        int,
        about(
            "Wrong tokens that an address may send to a process. Above this, tokens are answered "
            "429 without a check, except tokens that were valid before from this address.",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = 30
    jwt_issuer: Annotated[
        str | None,
        about("The `iss` of signed tokens. Required by jwt.", example='"https://id.example"'),
    ] = None
    jwt_audience: Annotated[
        tuple[str, ...],
        about("The `aud` of signed tokens, any of these. Required by jwt.", example='["headgate"]'),
    ] = ()
    jwt_jwks_url: Annotated[
        str | None,
        about(
            "URL of the issuer's keys (a JWK Set): https://, file://, or http:// on this machine. "
            "Required by jwt.",
            example='"https://id.example/.well-known/jwks.json"',
        ),
    ] = None
    jwt_jwks_ca_file: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM) for that https:// URL. Default: the system's.",
            example='"/etc/headgate/issuer-ca.pem"',
        ),
    ] = None
    jwt_algorithms: Annotated[tuple[JwtAlgorithm, ...], about("Accepted signature algorithms.")] = (
        "RS256",
        "PS256",
        "ES256",
        "EdDSA",
    )
    jwt_leeway_s: Annotated[
        int,
        about(
            "Tolerated difference from the issuer's clock, for `exp` and `nbf`.",
            minimum=0,
            maximum=600,
        ),
    ] = 30
    jwt_refresh_ms: Annotated[
        int, about("Interval between two fetches of the keys.", minimum=1_000, maximum=_DAY_MS)
    ] = 300_000
    jwt_unknown_key_ms: Annotated[
        int,
        about(
            "Shortest time between two fetches when tokens name an unknown key.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 10_000
    jwt_keys_max_age_ms: Annotated[
        int,
        about(
            "Time for which keys stay valid when they cannot be fetched again. After it, signed "
            "tokens are answered 503.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    jwt_producer_claim: Annotated[
        str, about("Claim with the producer's name. A dot selects a member of an object.")
    ] = "sub"
    jwt_topics_claim: Annotated[
        str | None,
        about(
            "Claim with globs of the topics that the producer may post to: a list, or text "
            "separated by blanks. Default: `topics` of [producers.NAME].",
            example='"event_topics"',
        ),
    ] = None
    jwt_roles_claim: Annotated[
        str | None,
        about(
            "Claim with the roles: a list, or text separated by blanks. Default: `roles` of "
            "[producers.NAME].",
            example='"realm_access.roles"',
        ),
    ] = None
    jwt_produce_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that grant the role produce.")
    ] = ("produce",)
    jwt_view_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that grant the role view.")
    ] = ("view",)
    jwt_operate_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that grant the role operate.")
    ] = ("operate",)
    mtls_name: Annotated[
        CertificateName,
        about(
            "Name in a client certificate that identifies the producer: the subject's common "
            "name, or a URI, DNS or e-mail name in subjectAltName."
        ),
    ] = "cn"

    @property
    def is_open(self) -> bool:
        """Return whether callers need no authentication."""
        return self.mode == ("none",)


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The console."""

    prometheus_url: Annotated[
        str | None,
        about(
            "URL of a Prometheus that scrapes all gateways, for the console's charts. Without it, "
            "or while it does not answer, the charts show the figures in this gateway's memory.",
            example='"http://prometheus.internal:9090"',
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """`headgate monitor`: its port, and the thresholds for consumer groups."""

    port: Annotated[
        int,
        about(
            "Port on http.host where `headgate monitor` serves /v1/groups, /metrics, /live and "
            "/ready.",
            minimum=1,
            maximum=65_535,
        ),
    ] = 9096
    url: Annotated[
        str | None,
        about(
            "URL of the monitor, which gateways need for their own /v1/groups. Default: the same "
            "host, at monitor.port.",
            example='"http://monitor.internal:9096"',
        ),
    ] = None
    interval_ms: Annotated[
        int, about("Interval between two polls of all groups.", minimum=100, maximum=3_600_000)
    ] = 10_000
    window_looks: Annotated[
        int,
        about(
            "Number of consecutive polls with a new commit and no decrease in lag after which a "
            "group is in WARN.",
            minimum=3,
            maximum=1_000,
        ),
    ] = 10
    patience_ms: Annotated[
        int,
        about(
            "Time with lag and without a new commit after which a group is in STALL or STOP. A "
            "group that usually takes longer gets twice its usual time, up to ten times this "
            "value.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 60_000
    allowed_lag: Annotated[
        int,
        about("Records in a partition that do not count as lag.", minimum=0, maximum=10**12),
    ] = 0
    horizon_ms: Annotated[
        int,
        about(
            "Age at which a record leaves the brokers' page cache: memory for the cache divided "
            "by bytes written per millisecond.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = 3_600_000
    probation_ms: Annotated[
        int,
        about(
            "Time for which a new group must keep up without interruption before it is admitted.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    probation_lag: Annotated[
        int, about("Largest lag, in records, of a group that keeps up.", minimum=0, maximum=10**12)
    ] = 10_000
    rogue_bytes_per_s: Annotated[
        int,
        about(
            "Bytes per second of a topic that may be read without a consumer group that explains "
            "them. Needs clusters.NAME.metrics_urls.",
            minimum=1,
            maximum=10**15,
        ),
    ] = 1_048_576
    state_file: Annotated[
        str | None,
        about(
            "File that keeps probation over a restart. Without it, every group that exists at the "
            "start counts as admitted.",
            example='"/var/lib/headgate/monitor.json"',
        ),
    ] = None
    group_owners: Annotated[
        tuple[str, ...],
        about(
            "Owners of consumer groups, for the label `owner` of alerts: a group's name or a glob, "
            "and the owner. The first that matches counts.",
            example='["billing-*: team-billing", "*: platform"]',
        ),
    ] = ()

    @property
    def owners(self) -> list[tuple[str, str]]:
        """Return the names or globs of groups with their owners, in order."""
        pairs = (entry.rpartition(":") for entry in self.group_owners)
        return [(groups.strip(), owner.strip()) for groups, _, owner in pairs]


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Quotas of replays, and the lifetime of their results."""

    active_max: Annotated[
        int,
        about(
            "Replays to a separate topic that one producer may have at a time, from the request "
            "until the topic is deleted. More are answered 429.",
            minimum=1,
            maximum=10_000,
        ),
    ] = 4
    mirror_wait_ms: Annotated[
        int,
        about(
            "Longest wait of a new replay, in ms, until the mirror has copied the end of the "
            "requested range. After it the replay is refused. 0 refuses at once.",
            minimum=0,
            maximum=20_000,
        ),
    ] = 10_000
    records_max: Annotated[
        int,
        about(
            "Most records (before the filter) that one replay may copy.",
            minimum=1,
            maximum=1_000_000_000_000,
        ),
    ] = 100_000_000
    ttl_s: Annotated[
        int,
        about(
            "Lifetime of a replay's finished result, unless the replay asks for less.",
            minimum=1,
            maximum=_YEAR_S,
        ),
    ] = 604_800
    keep_s: Annotated[
        int,
        about(
            "Time for which a finished replay is listed.",
            minimum=1,
            maximum=_YEAR_S,
        ),
    ] = 604_800
    bytes_per_s: Annotated[
        int | None,
        about(
            "Most bytes per second, as compressed on the broker, that a replay reads from a "
            "broker, unless it asks for less.",
            minimum=1,
            maximum=1_099_511_627_776,
            example="52428800",
        ),
    ] = None
    cold_bytes_per_s: Annotated[
        int,
        about(
            "Most bytes per second read from an ingest tier for allow_cold.",
            minimum=1,
            maximum=1_099_511_627_776,
        ),
    ] = 10_485_760


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """OpenTelemetry spans of requests, over OTLP/HTTP. Off without an endpoint."""

    endpoint: Annotated[
        str | None,
        about(
            "OTLP/HTTP URL of the collector, to which /v1/traces is added. Without it tracing is "
            "off.",
            example='"http://otel-collector:4318"',
        ),
    ] = None
    sample_one_in: Annotated[
        int,
        about(
            "Of requests without a traceparent, one in this many is traced. 0 = none. With a "
            "traceparent, the caller decides.",
            minimum=0,
            maximum=1_000_000_000,
        ),
    ] = 100
    service_name: Annotated[str, about("service.name of the spans.")] = "headgate"
    headers: Annotated[
        tuple[str, ...],
        about(
            "Headers of the requests to the collector, such as its authentication. Prefer the "
            "environment or a file.",
            example='["authorization: Bearer ..."]',
            secret=True,
        ),
    ] = field(default=(), repr=False)
    timeout_ms: Annotated[
        int,
        about("Longest time for a request to the collector.", minimum=100, maximum=600_000),
    ] = 10_000

    @property
    def header_pairs(self) -> dict[str, str]:
        """Return the headers by name."""
        pairs = (header.partition(":") for header in self.headers)
        return {name.strip(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """HTTP ports, and the limits of one request."""

    host: Annotated[str, about("Address to listen on. 0.0.0.0 = every interface.")] = "127.0.0.1"
    port: Annotated[int, about("Port of the data plane (events).", minimum=1, maximum=65535)] = 8080
    management_port: Annotated[
        int,
        about(
            "Port of metrics, control plane and console. Equal to `port` = one port for both.",
            minimum=1,
            maximum=65535,
        ),
    ] = 9090
    workers: Annotated[int, about("Processes that share the port.", minimum=1, maximum=256)] = 1
    body_max_bytes: Annotated[
        int,
        about("The largest request body, after decompression.", minimum=1024, maximum=_GIBIBYTE),
    ] = 16_777_216
    batch_max_events: Annotated[
        int, about("The most events in one request.", minimum=1, maximum=1_000_000)
    ] = 10_000
    json_max_depth: Annotated[
        int, about("The deepest nesting of a JSON document.", minimum=1, maximum=1024)
    ] = 128
    key_max_bytes: Annotated[
        int,
        about(
            "The longest record key of an event, however the key comes; a longer one is "
            "`invalid_key`.",
            minimum=1,
            maximum=1_048_576,
        ),
    ] = KEY_MAX_BYTES
    header_max_bytes: Annotated[
        int,
        about("The longest request line or single header field.", minimum=1024, maximum=1_048_576),
    ] = 8190
    request_timeout_ms: Annotated[
        int,
        about(
            "Longest wait for Kafka before a request is answered `unknown` or 503.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 30_000
    body_timeout_ms: Annotated[
        int, about("Longest time for a request's body to arrive.", minimum=100, maximum=_DAY_MS)
    ] = 30_000
    idle_timeout_ms: Annotated[
        int,
        about(
            "Longest time for which a connection may be idle, take to send a request's headers, "
            "or not read its responses.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 75_000
    shutdown_delay_ms: Annotated[
        int,
        about(
            "Time for which a stopping gateway keeps serving while `/ready` answers 503. Load "
            "balancers stop sending in this time, before the gateway drains.",
            minimum=0,
            maximum=_LONGEST_DELAY_MS,
        ),
    ] = 5_000
    drain_timeout_ms: Annotated[
        int,
        about(
            "Longest time for which a stopping gateway waits for requests in progress.",
            minimum=0,
            maximum=_DAY_MS,
        ),
    ] = 25_000
    reload_poll_ms: Annotated[
        int,
        about(
            "Interval between two checks of the configuration and certificate files. A changed "
            "file is reloaded as by SIGHUP when a second check finds the same change. 0 = reload "
            "by SIGHUP only.",
            minimum=0,
            maximum=_DAY_MS,
        ),
    ] = 0
    cors_origins: Annotated[
        tuple[str, ...],
        about(
            "Web origins whose pages may call the data plane; `*` = all. Empty = none (no CORS).",
            example='["https://app.example"]',
        ),
    ] = ()
    hosts: Annotated[
        tuple[str, ...],
        about(
            'Host names for browsers and for the control plane, if auth.mode = "none". `*` = any. '
            "Empty = any, from the same machine only. IP addresses, names without a dot, "
            ".localhost, .local and .internal are always allowed.",
            example='["events.example"]',
        ),
    ] = ()
    tls_cert_file: Annotated[
        str | None,
        about(
            "Certificate chain (PEM). If set, both ports speak HTTPS.", example='"/etc/tls/tls.crt"'
        ),
    ] = None
    tls_key_file: Annotated[
        str | None, about("Private key (PEM) of the certificate.", example='"/etc/tls/tls.key"')
    ] = None
    tls_min_version: Annotated[TlsVersion, about("Oldest TLS version that clients may use.")] = (
        "1.2"
    )
    tls_client_ca_file: Annotated[
        str | None,
        about(
            "Authorities (PEM) of client certificates. If set, clients are asked for a "
            "certificate. Required by auth.mode mtls.",
            example='"/etc/tls/clients-ca.pem"',
        ),
    ] = None
    tls_client_auth: Annotated[
        ClientCertificates,
        about(
            "Whether clients must present a certificate, including for /live, /ready and /metrics."
        ),
    ] = "optional"


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The in-flight budget of an instance, split evenly over its workers. Above it: 503."""

    in_flight_max_bytes: Annotated[
        int,
        about("Most event bytes in flight.", minimum=1024, maximum=64 * _GIBIBYTE),
    ] = 268_435_456
    in_flight_max_events: Annotated[
        int, about("Most events in flight.", minimum=1, maximum=100_000_000)
    ] = 100_000


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """One producer. Topics and roles are checked where auth.mode asks for credentials."""

    token_sha256: Annotated[
        tuple[str, ...],
        about(
            "SHA-256 (hex) of the producer's tokens: `headgate token NAME` makes one. Two during "
            "a rotation."
        ),
    ] = ()
    topics: Annotated[
        tuple[str, ...], about("Globs of the topics that the producer may post to.")
    ] = ()
    certificate_names: Annotated[
        tuple[str, ...],
        about(
            "Names in client certificates (auth.mtls_name) that identify this producer. Empty = "
            "the producer's name.",
            example='["spiffe://prod/checkout"]',
        ),
    ] = ()
    quota_events_per_s: Annotated[
        int | None,
        about(
            "Most events per second and instance. More are answered 429.",
            minimum=1,
            maximum=100_000_000,
            example="1000",
        ),
    ] = None
    quota_bytes_per_s: Annotated[
        int | None,
        about(
            "Most event bytes per second and instance. More are answered 429.",
            minimum=1,
            maximum=64 * _GIBIBYTE,
            example="10485760",
        ),
    ] = None
    max_in_flight_events: Annotated[
        int | None,
        about(
            "Most events of the producer in flight, per instance. More are answered 503. Default: "
            "a share of admission.in_flight_max_events.",
            minimum=1,
            maximum=100_000_000,
            example="5000",
        ),
    ] = None
    max_in_flight_bytes: Annotated[
        int | None,
        about(
            "Most event bytes of the producer in flight, per instance. More are answered 503. "
            "Default: a share of admission.in_flight_max_bytes.",
            minimum=1,
            maximum=64 * _GIBIBYTE,
            example="16777216",
        ),
    ] = None
    roles: Annotated[
        tuple[Role, ...],
        about(
            "Rights of the producer: post events (produce), read the control plane (view), "
            "change it (operate)."
        ),
    ] = ("produce",)


@dataclass(frozen=True, slots=True)
class CoalescerSettings:
    """The processes that publish held events: by default every gateway process."""

    in_gateway: Annotated[
        bool,
        about(
            "Whether `headgate serve` coalesces. Set false if `headgate coalesce` runs as its own "
            "process."
        ),
    ] = True
    session_timeout_ms: Annotated[
        int,
        about(
            "Time after which the held partitions of a crashed process are reassigned.",
            minimum=1000,
            maximum=1_800_000,
        ),
    ] = 10_000
    port: Annotated[
        int | None,
        about(
            "Port on http.host where `headgate coalesce` serves /live, /ready and /metrics.",
            minimum=1,
            maximum=65_535,
            example="9091",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error, and the installation log (`GET /v1/log`)."""

    level: Annotated[LogLevel, about("Lowest level that is written.")] = "INFO"
    access: Annotated[
        bool, about("Whether every request gets a line at INFO. This costs some 60 us per request.")
    ] = False
    format: Annotated[LogFormat, about("json (one object per line), or text for people.")] = "json"
    installation_file: Annotated[
        str | None,
        about(
            "File that keeps the installation log over restarts, one for each gateway. Without it "
            "the log is kept in memory.",
            example='"/var/lib/headgate/installation.log"',
        ),
    ] = None
    installation_max_bytes: Annotated[
        int,
        about(
            "Most bytes of that file and its predecessor (`.1`) together.",
            minimum=65_536,
            maximum=_GIBIBYTE,
        ),
    ] = 1_048_576


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a gateway is configured with. `topics` keeps the order of the file."""

    http: HttpSettings = field(default_factory=HttpSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    redis: RedisSettings = field(default_factory=RedisSettings)
    blobs: BlobSettings = field(default_factory=BlobSettings)
    spool: SpoolSettings = field(default_factory=SpoolSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    producers: Mapping[str, ProducerSettings] = field(default_factory=dict)
    topics: tuple[TopicPolicy, ...] = ()
    coalescer: CoalescerSettings = field(default_factory=CoalescerSettings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)
    replays: ReplaySettings = field(default_factory=ReplaySettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)


SECTIONS: Mapping[str, type[Any]] = {
    "http": HttpSettings,
    "admission": AdmissionSettings,
    "redis": RedisSettings,
    "blobs": BlobSettings,
    "spool": SpoolSettings,
    "auth": AuthSettings,
    "coalescer": CoalescerSettings,
    "monitor": MonitorSettings,
    "replays": ReplaySettings,
    "console": ConsoleSettings,
    "logs": LogSettings,
    "tracing": TracingSettings,
}
NAMED: Mapping[str, type[Any]] = {
    "clusters": ClusterSettings,
    "producers": ProducerSettings,
    "topics": TopicPolicy,
}


def dotted(path: Iterable[str]) -> str:
    """Return the option's name as TOML has it: `topics."orders.*".key`."""
    return ".".join(part if re.fullmatch(r"[\w\-]+", part) else f'"{part}"' for part in path)
