"""The settings as the gateway uses them: one frozen dataclass a section, defaults included.

A number carries its unit in its name: `_ms`, `_bytes`, `_events`, `_per_s`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from headgate.config.auth_settings import AuthSettings
from headgate.config.backend_settings import (
    BlobSettings,
    ClusterSettings,
    RedisSettings,
    SpoolSettings,
)
from headgate.config.console_settings import ConsoleSettings
from headgate.config.monitor_settings import MonitorSettings
from headgate.config.replay_settings import ReplaySettings
from headgate.config.tracing_settings import TracingSettings
from headgate.core.keys import KEY_MAX_BYTES
from headgate.core.option import about
from headgate.core.topics.policy import TopicPolicy

_DAY_MS = 86_400_000
_LONGEST_DELAY_MS = 600_000
_GIBIBYTE = 1_073_741_824

TlsVersion = Literal["1.2", "1.3"]
ClientCertificates = Literal["optional", "required"]
Role = Literal["produce", "view", "operate"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
LogFormat = Literal["json", "text"]


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
            'Allowed host names, for auth.mode = "none". Requests of browsers, and all requests to '
            "the control plane, may name no other host. `*` = any. Empty = any, but only from the "
            "same machine. IP addresses, names without a dot, .localhost, .local and .internal "
            "are always allowed.",
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
    """Everything a gateway is told. `topics` keeps the order of the file."""

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
