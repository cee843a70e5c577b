"""The settings of what stands behind the gateway: Kafka clusters, Redis and the blob store."""

from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlencode, urlsplit

from headgate.core.option import about
from headgate.core.suppression.servers import server_name

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
            "When a lane without acknowledgement gives up: its records end as `unknown`, those "
            "of which no connection has got anything as `kafka_unavailable`.",
            minimum=1000,
            maximum=_DAY_MS,
        ),
    ] = 120_000
    linger_ms: Annotated[
        int,
        about(
            "How long records gather for the next request to a broker; four times as long behind "
            "one that carried 100 records or more, and not at all while there is little traffic.",
            minimum=0,
            maximum=1000,
        ),
    ] = 2
    compression: Annotated[
        Compression,
        about(
            "Codec of the batches. Every consumer must be able to read it "
            "(docs/operate/configure.md); zstd costs least, lz4 and gzip 2-5 times more, none "
            "the most bytes."
        ),
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
    sasl_oauth_token_url: Annotated[
        str | None,
        about(
            "Where OAUTHBEARER gets its tokens, by the client credentials grant: https://, or "
            "http:// on this machine.",
            example='"https://id.example/token"',
        ),
    ] = None
    sasl_oauth_client_id: Annotated[
        str | None, about("The client that asks for a token.", example='"headgate"')
    ] = None
    sasl_oauth_client_secret: Annotated[
        str | None,
        about("Its secret; better by environment or file.", example='"..."', secret=True),
    ] = field(default=None, repr=False)
    sasl_oauth_scope: Annotated[
        str | None, about("The scope that is asked for, if any.", example='"kafka"')
    ] = None
    sasl_oauth_ca_file: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM) of that https:// URL; none = the system's.",
            example='"/etc/headgate/issuer-ca.pem"',
        ),
    ] = None
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
            minimum=1024,
            maximum=16 * _GIBIBYTE,
        ),
    ] = 33_554_432
    lane_stall_ms: Annotated[
        int,
        about(
            "A lane without acknowledgement for so long answers 503 at once; "
            "5 s are enough where the whole cluster is silent.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 15_000  # losing a leader stalls acknowledgements for 4-11 s and then goes on
    metrics_urls: Annotated[
        tuple[str, ...],
        about(
            "Pages of the brokers' JMX exporters, one a broker, for `headgate monitor`: bytes out "
            "that no group explains have a reader that Kafka does not list.",
            example='["http://kafka-1:7071/metrics"]',
        ),
    ] = ()
    metadata_refresh_ms: Annotated[
        int,
        about("How often topics and their limits are read again.", minimum=100, maximum=_DAY_MS),
    ] = 10_000


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """The state of suppression and of request identity; nothing in it is worth keeping."""

    url: Annotated[
        str | None,
        about(
            "redis://, rediss:// or unix:// URL; needed by topics that suppress or de-duplicate. "
            "Behind Sentinel: redis+sentinel://HOST[:26379],HOST/SERVICE.",
            example='"redis://127.0.0.1:6379/0"',
            secret=True,
        ),
    ] = field(default=None, repr=False)
    urls: Annotated[
        tuple[str, ...],
        about(
            "Several servers instead of one `url`, each a URL as that: keys are spread over them. "
            "All gateways need the same ones (docs/operate/redis-servers.md).",
            example='["redis://redis-1:6379/0", "redis://redis-2:6379/0", "redis://redis-3:6379/0"]',
            secret=True,
        ),
    ] = field(default=(), repr=False)
    ssl_cafile: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM) of a rediss:// URL; none = the system's.",
            example='"/etc/redis/ca.pem"',
        ),
    ] = None
    timeout_ms: Annotated[
        int,
        about(
            "How long an event waits for Redis, the queue included, before it goes past it; and "
            "how long one call may take before the breaker counts a failure.",
            minimum=1,
            maximum=60_000,
        ),
    ] = 500
    namespace: Annotated[str, about("The prefix of every Redis key.")] = "headgate"
    max_suppress_age_ms: Annotated[
        int,
        about(
            "An unchanged event is published again when its record is this old.",
            minimum=1000,
            maximum=30 * _DAY_MS,
        ),
    ] = 3_600_000
    quarantine_ms: Annotated[
        int,
        about(
            "How long nothing is suppressed after Redis lost its state.",
            minimum=1,
            maximum=_DAY_MS,
            derived="2 x the largest delivery_timeout_ms",
        ),
    ] = 240_000
    idempotency_ttl_ms: Annotated[
        int,
        about(
            "How long what was done under an Idempotency-Key is remembered.",
            minimum=1000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    claim_ms: Annotated[
        int,
        about(
            "How long an Idempotency-Key or event id stays claimed by a process that died "
            "(`idempotency_conflict`); living ones renew their claims.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 15_000

    @property
    def listed(self) -> tuple[str, ...]:
        """All URLs, however they were given."""
        return self.urls if self.url is None else (self.url,)

    @property
    def address(self) -> str | None:
        """Of the only server or the first, as all clients of ours take it. What is kept once, such
        as pauses, is there."""
        return next(iter(self.servers.values()), None)

    @property
    def servers(self) -> dict[str, str]:
        """Their addresses by their names."""
        return {server_name(url): self._address(url) for url in self.listed}

    def _address(self, url: str) -> str:
        """With what belongs to the connection."""
        if self.ssl_cafile is None or not url.startswith("rediss"):
            return url
        sign = "&" if urlsplit(url).query else "?"
        return f"{url}{sign}{urlencode({'ssl_ca_certs': self.ssl_cafile})}"


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """The disk for events of topics with `spool = true`, while Kafka does not take them."""

    path: Annotated[
        str | None,
        about(
            "A folder of this gateway alone, made if need be, on a disk that outlives the process.",
            example='"/var/lib/headgate/spool"',
        ),
    ] = None
    max_bytes: Annotated[
        int,
        about(
            "With so much on disk it takes no more, and events are answered 503.",
            minimum=1_048_576,
            maximum=1024 * _GIBIBYTE,
        ),
    ] = _GIBIBYTE
    max_age_ms: Annotated[
        int,
        about(
            "With an older event on disk it takes no more; nothing is ever dropped by age.",
            minimum=1000,
            maximum=365 * _DAY_MS,
        ),
    ] = 7 * _DAY_MS
    drain_events_per_s: Annotated[
        int,
        about(
            "How many more events a second go back to Kafka than new ones come to disk, so that "
            "fresh traffic keeps its latency.",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = 5_000


@dataclass(frozen=True, slots=True)
class BlobSettings:
    """Where values are kept that are too large for Kafka (the oversize strategy claim-check)."""

    url: Annotated[
        str | None,
        about(
            "A folder or a bucket's prefix; needed by topics with claim-check. s3:// takes the "
            "extra headgate[s3], and credentials and endpoint as AWS' own tools do.",
            example='"file:///var/lib/headgate/blobs"',
        ),
    ] = None
    uploads: Annotated[
        int, about("Values that a worker stores at a time; others wait.", minimum=1, maximum=64)
    ] = 4
    max_bytes: Annotated[
        int,
        about(
            "The largest body that goes straight to the store on topics with claim-check: those "
            "over http.body_max_bytes do, and memory holds a few megabytes of each.",
            minimum=1024,
            maximum=5 * _GIBIBYTE,  # what S3 copies inside a bucket by one call
        ),
    ] = 268_435_456
