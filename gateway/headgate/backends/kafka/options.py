"""What the Kafka backend is told: how its lanes send to a cluster, and how much they may hold."""

from dataclasses import dataclass

from aiokafka import codec

from headgate.config.backend_settings import ClusterSettings
from headgate.kafka.access import ClusterAccess, OAuthClient

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Java's default request.timeout.ms. A broker that hangs without closing its sockets is given up
# after this time and the batch goes to the partition's new leader, well before the lane gives up.
REQUEST_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class ClusterOptions(ClusterAccess):
    """One Kafka cluster: the way to it, and how its lanes send.

    delivery_timeout_ms: a batch that has not ended after this time ends as `unknown`, or as
    `kafka_unavailable` when no connection has got it. What waits in a lane of which Kafka has taken
    nothing for so long, and for the next producer's start, ends as `kafka_unavailable`, too.
    linger_ms: how long the lanes of a broker's partitions gather records for its next request (see
    `Rounds`). Longer means fewer and fuller requests, which is less CPU here and at the broker.
    compression: one of CODECS. zstd costs 2 us of CPU a record more than none and saves 60-80 %
    of the bytes on the wire and on the brokers' disks; gzip and lz4 cost 2-5 times as much.
    """

    delivery_timeout_ms: int = 120_000
    linger_ms: float = 2
    compression: str = "zstd"

    @property
    def request_timeout_ms(self) -> int:
        """Time for one request; two of them fit into the delivery timeout."""
        return max(1_000, min(REQUEST_TIMEOUT_MS, self.delivery_timeout_ms // 2))


BATCH_BYTES = 256 * 1024  # of a lane's batch, before compression


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """How much one lane may hold, and when it refuses more.

    max_bytes, max_events: of one lane; beyond them `overloaded`. 32 MiB is 15-25 s (the longest
    ordinary stall that was measured) of 2,000 records/s of 650 bytes on one partition.
    max_handed_bytes: of all batches in flight on a cluster. One request carries the batches of all
    partitions that a broker leads; one over its `socket.request.max.bytes` (100 MiB by default) is
    answered by closing the connection, and no batch in it would ever arrive.
    stall_ms: without an acknowledgement for this long *and* with a cluster that answers nothing,
    a lane refuses (`kafka_unavailable`).
    election_ms: the same while the cluster still answers metadata requests. An ordinary leader
    loss stalls all acknowledgements for 4-11 s (kill -9 of one of three brokers, measured) and
    then goes on without a loss, so the lanes must hold through it.
    """

    max_bytes: int = 32 * 1024 * 1024
    max_events: int = 50_000
    max_batch_bytes: int = BATCH_BYTES
    max_handed_bytes: int = 32 * 1024 * 1024
    stall_ms: int = 5_000
    election_ms: int = 15_000


def check_codec(cluster: str, compression: str) -> None:
    """Raise ValueError when batches could not be compressed so.

    aiokafka alone would notice at the first batch only.
    """
    if compression not in CODECS:
        raise ValueError(f"clusters.{cluster}.compression must be one of {', '.join(CODECS)}")
    if compression != "none" and not getattr(codec, f"has_{compression}")():
        raise ValueError(
            f"clusters.{cluster}.compression = {compression!r} needs the package cramjam"
        )


# From a cluster's section of the configuration to what the Kafka backend is told.


_UNUSED_MECHANISM = "PLAIN"  # aiokafka wants one even where the protocol has no SASL


def cluster_options(cluster: ClusterSettings) -> ClusterOptions:
    """The options of the Kafka backend for this cluster."""
    return ClusterOptions(
        bootstrap_servers=",".join(cluster.bootstrap_servers),
        delivery_timeout_ms=cluster.delivery_timeout_ms,
        linger_ms=cluster.linger_ms,
        compression=cluster.compression,
        security_protocol=cluster.security_protocol,
        sasl_mechanism=cluster.sasl_mechanism or _UNUSED_MECHANISM,
        sasl_username=cluster.sasl_username,
        sasl_password=cluster.sasl_password,
        ssl_cafile=cluster.ssl_cafile,
        ssl_certfile=cluster.ssl_certfile,
        ssl_keyfile=cluster.ssl_keyfile,
        oauth=_oauth(cluster),
    )


def _oauth(cluster: ClusterSettings) -> OAuthClient | None:
    url, client_id = cluster.sasl_oauth_token_url, cluster.sasl_oauth_client_id
    if url is None or client_id is None:
        return None
    return OAuthClient(
        url,
        client_id,
        cluster.sasl_oauth_client_secret or "",
        cluster.sasl_oauth_scope,
        cluster.sasl_oauth_ca_file,
    )


def lane_limits(cluster: ClusterSettings) -> LaneLimits:
    """The bounds of this cluster's lanes."""
    return LaneLimits(
        max_bytes=cluster.lane_max_bytes,
        election_ms=cluster.lane_stall_ms,
        stall_ms=min(LaneLimits().stall_ms, cluster.lane_stall_ms),
    )
