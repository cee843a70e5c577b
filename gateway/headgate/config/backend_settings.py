"""Settings of the backends: Kafka clusters, Redis, the spool and the blob store."""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlencode, urlsplit

from headgate.model.policy import about, option
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

    bootstrap_servers: tuple[str, ...] = field(
        metadata=about(
            "Brokers for the first connection, as host:port.", example='["127.0.0.1:9092"]'
        )
    )
    tier: Tier = option("ingest", "ingest: takes events. backfill: holds the mirror for replays.")
    backfill: str | None = option(
        None, "The backfill cluster of this ingest cluster.", example='"main-backfill"'
    )
    delivery_timeout_ms: int = option(
        120_000,
        "Time without an acknowledgement after which a lane gives up. Its records end as "
        "`unknown`, or as `kafka_unavailable` if no part of them was sent.",
        between=(1000, _DAY_MS),
    )
    linger_ms: int = option(
        2,
        "Time for which records are collected for the next request to a broker. It is four times "
        "as long after a request with 100 records or more, and zero under little traffic.",
        between=(0, 1000),
    )
    compression: Compression = option(
        "zstd",
        "Compression of batches. Every consumer must be able to read it "
        "(docs/operate/configure.md). zstd costs least, lz4 and gzip 2-5 times more, none the "
        "most bytes.",
    )
    security_protocol: SecurityProtocol = option("PLAINTEXT", "Kafka's security.protocol.")
    sasl_mechanism: SaslMechanism | None = option(
        None, "Kafka's sasl.mechanism. Required by SASL_*.", example='"SCRAM-SHA-512"'
    )
    sasl_username: str | None = option(None, "The SASL user.", example='"headgate"')
    sasl_password: str | None = option(
        None,
        "The SASL password. Prefer the environment or a file.",
        example='"..."',
        secret=True,
    )
    sasl_oauth_token_url: str | None = option(
        None,
        "URL that issues tokens for OAUTHBEARER by the client credentials grant: https://, or "
        "http:// on this machine.",
        example='"https://id.example/token"',
    )
    sasl_oauth_client_id: str | None = option(
        None, "Id of the client that requests a token.", example='"headgate"'
    )
    sasl_oauth_client_secret: str | None = option(
        None,
        "Secret of that client. Prefer the environment or a file.",
        example='"..."',
        secret=True,
    )
    sasl_oauth_scope: str | None = option(None, "Requested scope, if any.", example='"kafka"')
    sasl_oauth_ca_file: str | None = option(
        None,
        "Certificate authorities (PEM) for that https:// URL. Default: the system's.",
        example='"/etc/headgate/issuer-ca.pem"',
    )
    ssl_cafile: str | None = option(
        None, "Certificate authorities (PEM). Default: the system's.", example='"/etc/kafka/ca.pem"'
    )
    ssl_certfile: str | None = option(
        None, "Client certificate (PEM).", example='"/etc/kafka/client.pem"'
    )
    ssl_keyfile: str | None = option(
        None, "Private key (PEM) of the client certificate.", example='"/etc/kafka/client.key"'
    )
    lane_max_bytes: int = option(
        33_554_432,
        "Most record bytes that wait in one lane. A full lane answers 503.",
        between=(1024, 16 * _GIBIBYTE),
    )
    lane_stall_ms: int = option(
        15_000,
        "Time without an acknowledgement after which a lane answers 503 at once. If the whole "
        "cluster is silent, 5 s are enough.",
        between=(100, _DAY_MS),
    )
    metrics_urls: tuple[str, ...] = option(
        (),
        "URLs of the brokers' JMX exporters, one for each broker, for `headgate monitor`. It "
        "reports bytes that were read by no listed consumer group.",
        example='["http://kafka-1:7071/metrics"]',
    )
    metadata_refresh_ms: int = option(
        10_000, "Interval between two reads of the topics and their limits.", between=(100, _DAY_MS)
    )


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Redis, which holds the state of suppression and of idempotency. It needs no backup."""

    url: str | None = option(
        None,
        "redis://, rediss:// or unix:// URL. Required by topics that suppress or de-duplicate. "
        "With Sentinel: redis+sentinel://HOST[:26379],HOST/SERVICE.",
        example='"redis://127.0.0.1:6379/0"',
        secret=True,
    )
    urls: tuple[str, ...] = option(
        (),
        "Several servers instead of one `url`, each with such a URL. Keys are spread over them. "
        "All gateways need the same list (docs/operate/redis-servers.md).",
        example='["redis://redis-1:6379/0", "redis://redis-2:6379/0", "redis://redis-3:6379/0"]',
        secret=True,
    )
    ssl_cafile: str | None = option(
        None,
        "Certificate authorities (PEM) for a rediss:// URL. Default: the system's.",
        example='"/etc/redis/ca.pem"',
    )
    timeout_ms: int = option(
        500,
        "Longest wait of an event for Redis, queue included, before it continues without Redis. "
        "Also the time after which the circuit breaker counts a call as failed.",
        between=(1, 60_000),
    )
    namespace: str = option("headgate", "The prefix of every Redis key.")
    max_suppress_age_ms: int = option(
        3_600_000,
        "Age of a record at which an unchanged event is published again.",
        between=(1000, 30 * _DAY_MS),
    )
    quarantine_ms: int = option(
        240_000,
        "Time after a loss of Redis' state in which nothing is suppressed.",
        between=(1, _DAY_MS),
        derived="2 x the largest delivery_timeout_ms",
    )
    idempotency_ttl_ms: int = option(
        _DAY_MS,
        "Lifetime of the stored result of an Idempotency-Key.",
        between=(1000, 30 * _DAY_MS),
    )
    claim_ms: int = option(
        15_000,
        "Time for which a crashed process still claims an Idempotency-Key or event id "
        "(`idempotency_conflict`). Running processes renew their claims.",
        between=(100, _DAY_MS),
    )

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

    path: str | None = option(
        None,
        "A directory for this gateway only, on a disk that outlives the process. The gateway "
        "creates it if it is missing.",
        example='"/var/lib/headgate/spool"',
    )
    max_bytes: int = option(
        _GIBIBYTE,
        "Most bytes on disk. A full spool takes no events, and they are answered 503.",
        between=(1_048_576, 1024 * _GIBIBYTE),
    )
    max_age_ms: int = option(
        7 * _DAY_MS,
        "Age of the oldest event at which the spool takes no more events. No event is dropped by "
        "age.",
        between=(1000, 365 * _DAY_MS),
    )
    drain_events_per_s: int = option(
        5_000,
        "Events per second by which the drain to Kafka exceeds new events on disk. The limit "
        "keeps the latency of fresh traffic low.",
        between=(1, 1_000_000),
    )


@dataclass(frozen=True, slots=True)
class BlobSettings:
    """The store for values that are too large for Kafka (the oversize strategy claim-check)."""

    url: str | None = option(
        None,
        "A directory, or a bucket with a prefix. Required by topics with claim-check. s3:// needs "
        "the extra headgate[s3] and reads credentials and endpoint as the AWS tools do.",
        example='"file:///var/lib/headgate/blobs"',
    )
    uploads: int = option(
        4, "Values that a worker uploads at the same time. Others wait.", between=(1, 64)
    )
    max_bytes: int = option(
        268_435_456,
        "Largest body that is streamed to the store on topics with claim-check. Bodies over "
        "http.body_max_bytes are streamed, with a few megabytes of each in memory.",
        between=(1024, 5 * _GIBIBYTE),
    )
