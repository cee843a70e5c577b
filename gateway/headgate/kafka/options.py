"""Options of the Kafka backend: how lanes send to a cluster, and how much they hold."""

from collections.abc import Mapping
from dataclasses import dataclass

from aiokafka import codec

from headgate.config.backend_settings import ClusterSettings
from headgate.kafka.access import ClusterAccess, OAuthClient

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Java's default request.timeout.ms. After this time the producer gives up a broker that hangs with
# open sockets, and the batch goes to the partition's new leader, well before the lane gives up.
REQUEST_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class ClusterOptions(ClusterAccess):
    """Options of one Kafka cluster: access, and sending.

    Attributes:
        delivery_timeout_ms: The time limit of a batch. After it the batch ends as `unknown`, or as
            `kafka_unavailable` if no connection received it. Queued events of a lane end as
            `kafka_unavailable` if Kafka has taken nothing for this time plus the next producer's
            start.
        linger_ms: The time for which the lanes of a broker's partitions gather records for its next
            request (see `Rounds`). A longer time means fewer and fuller requests, and less CPU here
            and on the broker.
        compression: One of CODECS. zstd costs 2 us of CPU a record more than none and saves 60-80 %
            of the bytes on the wire and on the brokers' disks; gzip and lz4 cost 2-5 times as much.
    """

    delivery_timeout_ms: int = 120_000
    linger_ms: float = 2
    compression: str = "zstd"

    @property
    def request_timeout_ms(self) -> int:
        """Return the timeout of a request; two requests fit into the delivery timeout."""
        return max(1_000, min(REQUEST_TIMEOUT_MS, self.delivery_timeout_ms // 2))


BATCH_BYTES = 256 * 1024  # limit of a lane's batch before compression


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Limits of a lane.

    Attributes:
        max_bytes: Bytes in one lane; above it the lane refuses as `overloaded`. 32 MiB is 15-25 s
            (the longest ordinary stall that was measured) of 2,000 records/s of 650 bytes on one
            partition.
        max_events: Events in one lane; above it the lane refuses as `overloaded`.
        max_batch_bytes: Bytes of a batch before compression.
        max_handed_bytes: Bytes of all batches in flight on a cluster. A request carries the batches
            of all partitions that a broker leads. A broker closes the connection for a request
            above its `socket.request.max.bytes` (100 MiB by default), so none of its batches
            would ever arrive.
        stall_ms: A lane refuses as `kafka_unavailable` after this time without an acknowledgement
            if the cluster does not answer at all.
        election_ms: The same if the cluster still answers metadata requests. An ordinary loss of a
            leader stalls all acknowledgements for 4-11 s without losing records (kill -9 of one of
            three brokers, measured). The lanes must hold events for longer.
    """

    max_bytes: int = 32 * 1024 * 1024
    max_events: int = 50_000
    max_batch_bytes: int = BATCH_BYTES
    max_handed_bytes: int = 32 * 1024 * 1024
    stall_ms: int = 5_000
    election_ms: int = 15_000


def check_codec(cluster: str, compression: str) -> None:
    """Raise ValueError if the compression is unknown or its package is missing.

    aiokafka itself would fail only at the first batch.
    """
    if compression not in CODECS:
        raise ValueError(f"clusters.{cluster}.compression must be one of {', '.join(CODECS)}")
    if compression != "none" and not getattr(codec, f"has_{compression}")():
        raise ValueError(
            f"clusters.{cluster}.compression = {compression!r} needs the package cramjam"
        )


# ---- conversion of a cluster's configuration to options


_UNUSED_MECHANISM = "PLAIN"  # aiokafka needs a mechanism even for a protocol without SASL


def cluster_options(cluster: ClusterSettings) -> ClusterOptions:
    """Return the options of the Kafka backend for a cluster."""
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


def backfill_clusters(clusters: Mapping[str, ClusterSettings]) -> dict[str, ClusterOptions]:
    """Return the options of the clusters of the backfill tier, by name."""
    return {
        name: cluster_options(cluster)
        for name, cluster in clusters.items()
        if cluster.tier == "backfill"
    }


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
    """Return the limits of a cluster's lanes."""
    return LaneLimits(
        max_bytes=cluster.lane_max_bytes,
        election_ms=cluster.lane_stall_ms,
        stall_ms=min(LaneLimits().stall_ms, cluster.lane_stall_ms),
    )
