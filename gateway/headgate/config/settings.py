"""Settings as the gateway uses them: a frozen dataclass for each section, with the defaults.

A number carries its unit in its name: `_ms`, `_bytes`, `_events`, `_per_s`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headgate.config.backend_settings import (
    BlobSettings,
    ClusterSettings,
    RedisSettings,
    SpoolSettings,
)
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.policy import TopicPolicy, option

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

    mode: tuple[AuthMode, ...] = option(
        ("none",),
        "Ways to authenticate callers, one or several: no authentication (none, only alone), a "
        "token from the configuration (token), a signed token of an issuer (jwt), a TLS client "
        "certificate (mtls).",
    )
    failed_attempts_per_minute: int = option(
        30,
        "Wrong tokens that an address may send to a process. Above this, tokens are answered 429 "
        "without a check, except tokens that were valid before from this address.",
        between=(1, 1_000_000),
    )
    jwt_issuer: str | None = option(
        None, "The `iss` of signed tokens. Required by jwt.", example='"https://id.example"'
    )
    jwt_audience: tuple[str, ...] = option(
        (), "The `aud` of signed tokens, any of these. Required by jwt.", example='["headgate"]'
    )
    jwt_jwks_url: str | None = option(
        None,
        "URL of the issuer's keys (a JWK Set): https://, file://, or http:// on this machine. "
        "Required by jwt.",
        example='"https://id.example/.well-known/jwks.json"',
    )
    jwt_jwks_ca_file: str | None = option(
        None,
        "Certificate authorities (PEM) for that https:// URL. Default: the system's.",
        example='"/etc/headgate/issuer-ca.pem"',
    )
    jwt_algorithms: tuple[JwtAlgorithm, ...] = option(
        (
            "RS256",
            "PS256",
            "ES256",
            "EdDSA",
        ),
        "Accepted signature algorithms.",
    )
    jwt_leeway_s: int = option(
        30, "Tolerated difference from the issuer's clock, for `exp` and `nbf`.", between=(0, 600)
    )
    jwt_refresh_ms: int = option(
        300_000, "Interval between two fetches of the keys.", between=(1_000, _DAY_MS)
    )
    jwt_unknown_key_ms: int = option(
        10_000,
        "Shortest time between two fetches when tokens name an unknown key.",
        between=(100, _DAY_MS),
    )
    jwt_keys_max_age_ms: int = option(
        _DAY_MS,
        "Time for which keys stay valid when they cannot be fetched again. After it, signed "
        "tokens are answered 503.",
        between=(1_000, 30 * _DAY_MS),
    )
    jwt_producer_claim: str = option(
        "sub", "Claim with the producer's name. A dot selects a member of an object."
    )
    jwt_topics_claim: str | None = option(
        None,
        "Claim with globs of the topics that the producer may post to: a list, or text separated "
        "by blanks. Default: `topics` of [producers.NAME].",
        example='"event_topics"',
    )
    jwt_roles_claim: str | None = option(
        None,
        "Claim with the roles: a list, or text separated by blanks. Default: `roles` of "
        "[producers.NAME].",
        example='"realm_access.roles"',
    )
    jwt_produce_values: tuple[str, ...] = option(
        ("produce",), "Values of the roles claim that grant the role produce."
    )
    jwt_view_values: tuple[str, ...] = option(
        ("view",), "Values of the roles claim that grant the role view."
    )
    jwt_operate_values: tuple[str, ...] = option(
        ("operate",), "Values of the roles claim that grant the role operate."
    )
    mtls_name: CertificateName = option(
        "cn",
        "Name in a client certificate that identifies the producer: the subject's common name, or "
        "a URI, DNS or e-mail name in subjectAltName.",
    )

    @property
    def is_open(self) -> bool:
        """Return whether callers need no authentication."""
        return self.mode == ("none",)


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The console."""

    prometheus_url: str | None = option(
        None,
        "URL of a Prometheus that scrapes all gateways, for the console's charts. Without it, or "
        "while it does not answer, the charts show the figures in this gateway's memory.",
        example='"http://prometheus.internal:9090"',
    )


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """`headgate monitor`: its port, and the thresholds for consumer groups."""

    port: int = option(
        9096,
        "Port on http.host where `headgate monitor` serves /v1/groups, /metrics, /live and /ready.",
        between=(1, 65_535),
    )
    url: str | None = option(
        None,
        "URL of the monitor, which gateways need for their own /v1/groups. Default: the same "
        "host, at monitor.port.",
        example='"http://monitor.internal:9096"',
    )
    interval_ms: int = option(
        10_000, "Interval between two polls of all groups.", between=(100, 3_600_000)
    )
    window_looks: int = option(
        10,
        "Number of consecutive polls with a new commit and no decrease in lag after which a group "
        "is in WARN.",
        between=(3, 1_000),
    )
    patience_ms: int = option(
        60_000,
        "Time with lag and without a new commit after which a group is in STALL or STOP. A group "
        "that usually takes longer gets twice its usual time, up to ten times this value.",
        between=(100, _DAY_MS),
    )
    allowed_lag: int = option(
        0, "Records in a partition that do not count as lag.", between=(0, 10**12)
    )
    horizon_ms: int = option(
        3_600_000,
        "Age at which a record leaves the brokers' page cache: memory for the cache divided by "
        "bytes written per millisecond.",
        between=(1_000, 30 * _DAY_MS),
    )
    probation_ms: int = option(
        _DAY_MS,
        "Time for which a new group must keep up without interruption before it is admitted.",
        between=(1_000, 30 * _DAY_MS),
    )
    probation_lag: int = option(
        10_000, "Largest lag, in records, of a group that keeps up.", between=(0, 10**12)
    )
    rogue_bytes_per_s: int = option(
        1_048_576,
        "Bytes per second of a topic that may be read without a consumer group that explains "
        "them. Needs clusters.NAME.metrics_urls.",
        between=(1, 10**15),
    )
    state_file: str | None = option(
        None,
        "File that keeps probation over a restart. Without it, every group that exists at the "
        "start counts as admitted.",
        example='"/var/lib/headgate/monitor.json"',
    )
    group_owners: tuple[str, ...] = option(
        (),
        "Owners of consumer groups, for the label `owner` of alerts: a group's name or a glob, "
        "and the owner. The first that matches counts.",
        example='["billing-*: team-billing", "*: platform"]',
    )

    @property
    def owners(self) -> list[tuple[str, str]]:
        """Return the names or globs of groups with their owners, in order."""
        pairs = (entry.rpartition(":") for entry in self.group_owners)
        return [(groups.strip(), owner.strip()) for groups, _, owner in pairs]


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Quotas of replays, and the lifetime of their results."""

    active_max: int = option(
        4,
        "Replays to a separate topic that one producer may have at a time, from the request until "
        "the topic is deleted. More are answered 429.",
        between=(1, 10_000),
    )
    mirror_wait_ms: int = option(
        10_000,
        "Longest wait of a new replay, in ms, until the mirror has copied the end of the "
        "requested range. After it the replay is refused. 0 refuses at once.",
        between=(0, 20_000),
    )
    records_max: int = option(
        100_000_000,
        "Most records (before the filter) that one replay may copy.",
        between=(1, 1_000_000_000_000),
    )
    ttl_s: int = option(
        604_800,
        "Lifetime of a replay's finished result, unless the replay asks for less.",
        between=(1, _YEAR_S),
    )
    keep_s: int = option(
        604_800, "Time for which a finished replay is listed.", between=(1, _YEAR_S)
    )
    bytes_per_s: int | None = option(
        None,
        "Most bytes per second, as compressed on the broker, that a replay reads from a broker, "
        "unless it asks for less.",
        between=(1, 1_099_511_627_776),
        example="52428800",
    )
    cold_bytes_per_s: int = option(
        10_485_760,
        "Most bytes per second read from an ingest tier for allow_cold.",
        between=(1, 1_099_511_627_776),
    )


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """OpenTelemetry spans of requests, over OTLP/HTTP. Off without an endpoint."""

    endpoint: str | None = option(
        None,
        "OTLP/HTTP URL of the collector, to which /v1/traces is added. Without it tracing is off.",
        example='"http://otel-collector:4318"',
    )
    sample_one_in: int = option(
        100,
        "Of requests without a traceparent, one in this many is traced. 0 = none. With a "
        "traceparent, the caller decides.",
        between=(0, 1_000_000_000),
    )
    service_name: str = option("headgate", "service.name of the spans.")
    headers: tuple[str, ...] = option(
        (),
        "Headers of the requests to the collector, such as its authentication. Prefer the "
        "environment or a file.",
        example='["authorization: Bearer ..."]',
        secret=True,
    )
    timeout_ms: int = option(
        10_000, "Longest time for a request to the collector.", between=(100, 600_000)
    )

    @property
    def header_pairs(self) -> dict[str, str]:
        """Return the headers by name."""
        pairs = (header.partition(":") for header in self.headers)
        return {name.strip(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """HTTP ports, and the limits of one request."""

    host: str = option("127.0.0.1", "Address to listen on. 0.0.0.0 = every interface.")
    port: int = option(8080, "Port of the data plane (events).", between=(1, 65535))
    management_port: int = option(
        9090,
        "Port of metrics, control plane and console. Equal to `port` = one port for both.",
        between=(1, 65535),
    )
    workers: int = option(1, "Processes that share the port.", between=(1, 256))
    body_max_bytes: int = option(
        16_777_216, "The largest request body, after decompression.", between=(1024, _GIBIBYTE)
    )
    batch_max_events: int = option(
        10_000, "The most events in one request.", between=(1, 1_000_000)
    )
    json_max_depth: int = option(128, "The deepest nesting of a JSON document.", between=(1, 1024))
    key_max_bytes: int = option(
        KEY_MAX_BYTES,
        "The longest record key of an event, however the key comes; a longer one is `invalid_key`.",
        between=(1, 1_048_576),
    )
    header_max_bytes: int = option(
        8190, "The longest request line or single header field.", between=(1024, 1_048_576)
    )
    request_timeout_ms: int = option(
        30_000,
        "Longest wait for Kafka before a request is answered `unknown` or 503.",
        between=(100, _DAY_MS),
    )
    body_timeout_ms: int = option(
        30_000, "Longest time for a request's body to arrive.", between=(100, _DAY_MS)
    )
    idle_timeout_ms: int = option(
        75_000,
        "Longest time for which a connection may be idle, take to send a request's headers, or "
        "not read its responses.",
        between=(100, _DAY_MS),
    )
    shutdown_delay_ms: int = option(
        5_000,
        "Time for which a stopping gateway keeps serving while `/ready` answers 503. Load "
        "balancers stop sending in this time, before the gateway drains.",
        between=(0, _LONGEST_DELAY_MS),
    )
    drain_timeout_ms: int = option(
        25_000,
        "Longest time for which a stopping gateway waits for requests in progress.",
        between=(0, _DAY_MS),
    )
    reload_poll_ms: int = option(
        0,
        "Interval between two checks of the configuration and certificate files. A changed file "
        "is reloaded as by SIGHUP when a second check finds the same change. 0 = reload by SIGHUP "
        "only.",
        between=(0, _DAY_MS),
    )
    cors_origins: tuple[str, ...] = option(
        (),
        "Web origins whose pages may call the data plane; `*` = all. Empty = none (no CORS).",
        example='["https://app.example"]',
    )
    hosts: tuple[str, ...] = option(
        (),
        'Host names for browsers and for the control plane, if auth.mode = "none". `*` = any. '
        "Empty = any, from the same machine only. IP addresses, names without a dot, "
        ".localhost, .local and .internal are always allowed.",
        example='["events.example"]',
    )
    tls_cert_file: str | None = option(
        None,
        "Certificate chain (PEM). If set, both ports speak HTTPS.",
        example='"/etc/tls/tls.crt"',
    )
    tls_key_file: str | None = option(
        None, "Private key (PEM) of the certificate.", example='"/etc/tls/tls.key"'
    )
    tls_min_version: TlsVersion = option("1.2", "Oldest TLS version that clients may use.")
    tls_client_ca_file: str | None = option(
        None,
        "Authorities (PEM) of client certificates. If set, clients are asked for a certificate. "
        "Required by auth.mode mtls.",
        example='"/etc/tls/clients-ca.pem"',
    )
    tls_client_auth: ClientCertificates = option(
        "optional",
        "Whether clients must present a certificate, including for /live, /ready and /metrics.",
    )


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The in-flight budget of an instance, split evenly over its workers. Above it: 503."""

    in_flight_max_bytes: int = option(
        268_435_456, "Most event bytes in flight.", between=(1024, 64 * _GIBIBYTE)
    )
    in_flight_max_events: int = option(100_000, "Most events in flight.", between=(1, 100_000_000))


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """One producer. Topics and roles are checked where auth.mode asks for credentials."""

    token_sha256: tuple[str, ...] = option(
        (),
        "SHA-256 (hex) of the producer's tokens: `headgate token NAME` makes one. Two during a "
        "rotation.",
    )
    topics: tuple[str, ...] = option((), "Globs of the topics that the producer may post to.")
    certificate_names: tuple[str, ...] = option(
        (),
        "Names in client certificates (auth.mtls_name) that identify this producer. Empty = the "
        "producer's name.",
        example='["spiffe://prod/checkout"]',
    )
    quota_events_per_s: int | None = option(
        None,
        "Most events per second and instance. More are answered 429.",
        between=(1, 100_000_000),
        example="1000",
    )
    quota_bytes_per_s: int | None = option(
        None,
        "Most event bytes per second and instance. More are answered 429.",
        between=(1, 64 * _GIBIBYTE),
        example="10485760",
    )
    max_in_flight_events: int | None = option(
        None,
        "Most events of the producer in flight, per instance. More are answered 503, except a "
        "request that is alone: while nothing else of the producer is in flight, it may be larger. "
        "Default: a share of admission.in_flight_max_events.",
        between=(1, 100_000_000),
        example="5000",
    )
    max_in_flight_bytes: int | None = option(
        None,
        "Most event bytes of the producer in flight, per instance. More are answered 503, except "
        "a request that is alone: while nothing else of the producer is in flight, it may be "
        "larger. Default: a share of admission.in_flight_max_bytes.",
        between=(1, 64 * _GIBIBYTE),
        example="16777216",
    )
    roles: tuple[Role, ...] = option(
        ("produce",),
        "Rights of the producer: post events (produce), read the control plane (view), change it "
        "(operate).",
    )


@dataclass(frozen=True, slots=True)
class CoalescerSettings:
    """The processes that publish held events: by default every gateway process."""

    in_gateway: bool = option(
        True,
        "Whether `headgate serve` coalesces. Set false if `headgate coalesce` runs as its own "
        "process.",
    )
    session_timeout_ms: int = option(
        10_000,
        "Time after which the held partitions of a crashed process are reassigned.",
        between=(1000, 1_800_000),
    )
    port: int | None = option(
        None,
        "Port on http.host where `headgate coalesce` serves /live, /ready and /metrics.",
        between=(1, 65_535),
        example="9091",
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error, and the installation log (`GET /v1/log`)."""

    level: LogLevel = option("INFO", "Lowest level that is written.")
    access: bool = option(
        False, "Whether every request gets a line at INFO. This costs some 60 us per request."
    )
    format: LogFormat = option("json", "json (one object per line), or text for people.")
    installation_file: str | None = option(
        None,
        "File that keeps the installation log over restarts, one for each gateway. Without it the "
        "log is kept in memory.",
        example='"/var/lib/headgate/installation.log"',
    )
    installation_max_bytes: int = option(
        1_048_576,
        "Most bytes of that file and its predecessor (`.1`) together.",
        between=(65_536, _GIBIBYTE),
    )


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
