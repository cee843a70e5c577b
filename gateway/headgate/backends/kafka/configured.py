"""From a cluster's section of the configuration to what the Kafka backend is told."""

from headgate.backends.kafka.options import ClusterOptions, LaneLimits
from headgate.config.backend_settings import ClusterSettings
from headgate.kafka.oauth import OAuthClient

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
