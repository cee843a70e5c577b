"""Settings of the backends: Kafka clusters, Redis, the spool and the blob store."""

from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlencode, urlsplit

from headgate.model.policy import about
from headgate.redis.servers import server_name

_DAY_MS = 86_400_000
_GIBIBYTE = 1_073_741_824

Tier = Literal["ingest", "backfill"]
Compression = Literal["none", "zstd", "lz4", "snappy", "gzip"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One Kafka cluster: how to reach it and how its lanes behave."""

    bootstrap_servers: Annotated[
        tuple[str, ...],
        about("Brokers for the first connection, as host:port.", example='["127.0.0.1:9092"]'),
    ]
    tier: Annotated[
        Tier, about("ingest: takes events. backfill: holds the mirror for replays.")
    ] = "ingest"
    backfill: Annotated[
        str | None, about("The backfill cluster of this ingest cluster.", example='"main-backfill"')
    ] = None
    delivery_timeout_ms: Annotated[
        int,
        about(
            "Time without an acknowledgement after which a lane gives up. Its records end as "
            "`unknown`, or as `kafka_unavailable` if no part of them was sent.",
            minimum=1000,
            maximum=_DAY_MS,
        ),
    ] = 120_000
    linger_ms: Annotated[
        int,
        about(
            "Time for which records are collected for the next request to a broker. It is four "
            "times as long after a request with 100 records or more, and zero under little "
            "traffic.",
            minimum=0,
            maximum=1000,
        ),
    ] = 2
    compression: Annotated[
        Compression,
        about(
            "Compression of batches. Every consumer must be able to read it "
            "(docs/operate/configure.md). zstd costs least, lz4 and gzip 2-5 times more, none the "
            "most bytes."
        ),
    ] = "zstd"
    security_protocol: Annotated[SecurityProtocol, about("Kafka's security.protocol.")] = (
        "PLAINTEXT"
    )
    sasl_mechanism: Annotated[
        SaslMechanism | None,
        about("Kafka's sasl.mechanism. Required by SASL_*.", example='"SCRAM-SHA-512"'),
    ] = None
    sasl_username: Annotated[str | None, about("The SASL user.", example='"headgate"')] = None
    sasl_password: Annotated[
        str | None,
        about("The SASL password. Prefer the environment or a file.", example='"..."', secret=True),
    ] = field(default=None, repr=False)
    sasl_oauth_token_url: Annotated[
        str | None,
        about(
            "URL that issues tokens for OAUTHBEARER by the client credentials grant: https://, or "
            "http:// on this machine.",
            example='"https://id.example/token"',
        ),
    ] = None
    sasl_oauth_client_id: Annotated[
        str | None, about("Id of the client that requests a token.", example='"headgate"')
    ] = None
    sasl_oauth_client_secret: Annotated[
        str | None,
        about(
            "Secret of that client. Prefer the environment or a file.", example='"..."', secret=True
        ),
    ] = field(default=None, repr=False)
    sasl_oauth_scope: Annotated[
        str | None, about("Requested scope, if any.", example='"kafka"')
    ] = None
    sasl_oauth_ca_file: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM) for that https:// URL. Default: the system's.",
            example='"/etc/headgate/issuer-ca.pem"',
        ),
    ] = None
    ssl_cafile: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM). Default: the system's.", example='"/etc/kafka/ca.pem"'
        ),
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
            "Most record bytes that wait in one lane. A full lane answers 503.",
            minimum=1024,
            maximum=16 * _GIBIBYTE,
        ),
    ] = 33_554_432
    lane_stall_ms: Annotated[
        int,
        about(
            "Time without an acknowledgement after which a lane answers 503 at once. If the whole "
            "cluster is silent, 5 s are enough.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 15_000  # the loss of a leader stalls acknowledgements for 4-11 s
    metrics_urls: Annotated[
        tuple[str, ...],
        about(
            "URLs of the brokers' JMX exporters, one for each broker, for `headgate monitor`. It "
            "reports bytes that were read by no listed consumer group.",
            example='["http://kafka-1:7071/metrics"]',
        ),
    ] = ()
    metadata_refresh_ms: Annotated[
        int,
        about(
            "Interval between two reads of the topics and their limits.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 10_000


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Redis, which holds the state of suppression and of idempotency. It needs no backup."""

    url: Annotated[
        str | None,
        about(
            "redis://, rediss:// or unix:// URL. Required by topics that suppress or "
            "de-duplicate. With Sentinel: redis+sentinel://HOST[:26379],HOST/SERVICE.",
            example='"redis://127.0.0.1:6379/0"',
            secret=True,
        ),
    ] = field(default=None, repr=False)
    urls: Annotated[
        tuple[str, ...],
        about(
            "Several servers instead of one `url`, each with such a URL. Keys are spread over "
            "them. All gateways need the same list (docs/operate/redis-servers.md).",
            example='["redis://redis-1:6379/0", "redis://redis-2:6379/0", "redis://redis-3:6379/0"]',
            secret=True,
        ),
    ] = field(default=(), repr=False)
    ssl_cafile: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM) for a rediss:// URL. Default: the system's.",
            example='"/etc/redis/ca.pem"',
        ),
    ] = None
    timeout_ms: Annotated[
        int,
        about(
            "Longest wait of an event for Redis, queue included, before it continues without "
            "Redis. Also the time after which the circuit breaker counts a call as failed.",
            minimum=1,
            maximum=60_000,
        ),
    ] = 500
    namespace: Annotated[str, about("The prefix of every Redis key.")] = "headgate"
    max_suppress_age_ms: Annotated[
        int,
        about(
            "Age of a record at which an unchanged event is published again.",
            minimum=1000,
            maximum=30 * _DAY_MS,
        ),
    ] = 3_600_000
    quarantine_ms: Annotated[
        int,
        about(
            "Time after a loss of Redis' state in which nothing is suppressed.",
            minimum=1,
            maximum=_DAY_MS,
            derived="2 x the largest delivery_timeout_ms",
        ),
    ] = 240_000
    idempotency_ttl_ms: Annotated[
        int,
        about(
            "Lifetime of the stored result of an Idempotency-Key.",
            minimum=1000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    claim_ms: Annotated[
        int,
        about(
            "Time for which a crashed process still claims an Idempotency-Key or event id "
            "(`idempotency_conflict`). Running processes renew their claims.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 15_000

    @property
    def listed(self) -> tuple[str, ...]:
        """Return all URLs, from `url` or `urls`."""
        return self.urls if self.url is None else (self.url,)

    @property
    def address(self) -> str | None:
        """Return the address of the first server, which keeps what exists once, such as pauses."""
        return next(iter(self.servers.values()), None)

    @property
    def servers(self) -> dict[str, str]:
        """Return the servers' addresses by name."""
        return {server_name(url): self._address(url) for url in self.listed}

    def _address(self, url: str) -> str:
        """Return the URL with the TLS option of the connection."""
        if self.ssl_cafile is None or not url.startswith("rediss"):
            return url
        sign = "&" if urlsplit(url).query else "?"
        return f"{url}{sign}{urlencode({'ssl_ca_certs': self.ssl_cafile})}"


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """The disk for events of topics with `spool = true` while Kafka is unavailable."""

    path: Annotated[
        str | None,
        about(
            "A directory for this gateway only, on a disk that outlives the process. The gateway "
            "creates it if it is missing.",
            example='"/var/lib/headgate/spool"',
        ),
    ] = None
    max_bytes: Annotated[
        int,
        about(
            "Most bytes on disk. A full spool takes no events, and they are answered 503.",
            minimum=1_048_576,
            maximum=1024 * _GIBIBYTE,
        ),
    ] = _GIBIBYTE
    max_age_ms: Annotated[
        int,
        about(
            "Age of the oldest event at which the spool takes no more events. No event is dropped "
            "by age.",
            minimum=1000,
            maximum=365 * _DAY_MS,
        ),
    ] = 7 * _DAY_MS
    drain_events_per_s: Annotated[
        int,
        about(
            "Events per second by which the drain to Kafka exceeds new events on disk. The limit "
            "keeps the latency of fresh traffic low.",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = 5_000


@dataclass(frozen=True, slots=True)
class BlobSettings:
    """The store for values that are too large for Kafka (the oversize strategy claim-check)."""

    url: Annotated[
        str | None,
        about(
            "A directory, or a bucket with a prefix. Required by topics with claim-check. s3:// "
            "needs the extra headgate[s3] and reads credentials and endpoint as the AWS tools do.",
            example='"file:///var/lib/headgate/blobs"',
        ),
    ] = None
    uploads: Annotated[
        int,
        about("Values that a worker uploads at the same time. Others wait.", minimum=1, maximum=64),
    ] = 4
    max_bytes: Annotated[
        int,
        about(
            "Largest body that is streamed to the store on topics with claim-check. Bodies over "
            "http.body_max_bytes are streamed, with a few megabytes of each in memory.",
            minimum=1024,
            maximum=5 * _GIBIBYTE,  # largest copy of one S3 call
        ),
    ] = 268_435_456
