"""What the options of clusters must fit: each other, the tiers, and the request's deadline."""

import re
from collections.abc import Iterator
from pathlib import Path

from headgate.config.backend_settings import ClusterSettings
from headgate.config.check_auth import is_trusted_url
from headgate.config.errors import Problem, shown
from headgate.config.names import dotted
from headgate.config.settings import Settings

_NAME = r"[A-Za-z0-9][\w\-]*"
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[\w.\-]+):(\d{1,5})"


def cluster_contradictions(settings: Settings) -> Iterator[Problem]:
    """Everything wrong with the clusters."""
    if not any(each.tier == "ingest" for each in settings.clusters.values()):
        expected = "at least one cluster of tier ingest"
        fix = 'Add [clusters.main] with bootstrap_servers = "host:9092".'
        yield Problem("clusters", "none takes events", expected, fix)
    for name, cluster in settings.clusters.items():
        if not re.fullmatch(_NAME, name):
            expected = "letters, digits, dashes and underscores"
            yield Problem(dotted(("clusters", name)), shown(name), expected)
        for problem in _cluster(cluster):
            yield problem._replace(option=dotted(("clusters", name, problem.option)))
        yield from _tiers(name, settings)
        yield from _deadlines(name, settings)


def _cluster(cluster: ClusterSettings) -> Iterator[Problem]:
    yield from _servers(cluster)
    yield from _sasl(cluster)
    yield from _tls(cluster)


def _servers(cluster: ClusterSettings) -> Iterator[Problem]:
    expected = "host:port, or a list of them"
    if not cluster.bootstrap_servers:
        yield Problem("bootstrap_servers", "no server", expected)
    for server in cluster.bootstrap_servers:
        found = re.fullmatch(_SERVER, server)
        if found is None or not 0 < int(found[2]) < 65536:
            yield Problem("bootstrap_servers", shown(server), expected)


def _sasl(cluster: ClusterSettings) -> Iterator[Problem]:
    by_password = {
        "sasl_username": cluster.sasl_username,
        "sasl_password": cluster.sasl_password,
    }
    by_token = {
        "sasl_oauth_token_url": cluster.sasl_oauth_token_url,
        "sasl_oauth_client_id": cluster.sasl_oauth_client_id,
        "sasl_oauth_client_secret": cluster.sasl_oauth_client_secret,
    }
    is_token = cluster.sasl_mechanism == "OAUTHBEARER"
    needed, others = (by_token, by_password) if is_token else (by_password, by_token)
    needed = {"sasl_mechanism": cluster.sasl_mechanism, **needed}
    protocol = shown(cluster.security_protocol)
    if not cluster.security_protocol.startswith("SASL_"):
        expected = 'nothing, or security_protocol = "SASL_SSL" or "SASL_PLAINTEXT"'
        for option, value in (needed | others).items():
            if value is not None:
                yield Problem(option, f"set, but security_protocol = {protocol}", expected)
        return
    for option, value in needed.items():
        if value is None:
            yield Problem(option, "missing", f"a value, as security_protocol = {protocol}")
    for option, value in others.items():
        if value is not None and cluster.sasl_mechanism is not None:
            found = f"set, but sasl_mechanism = {shown(cluster.sasl_mechanism)}"
            yield Problem(option, found, "nothing, or another mechanism")
    if is_token:
        yield from _token_source(cluster)


def _token_source(cluster: ClusterSettings) -> Iterator[Problem]:
    url, ca_file = cluster.sasl_oauth_token_url, cluster.sasl_oauth_ca_file
    if url is not None and not is_trusted_url(url):
        expected = "https://..., or http:// on this machine: the secret goes there"
        yield Problem("sasl_oauth_token_url", shown(url), expected)
    if ca_file is not None and not Path(ca_file).is_file():
        yield Problem("sasl_oauth_ca_file", f"{shown(ca_file)} is not a file", "a PEM file's path")


def _tls(cluster: ClusterSettings) -> Iterator[Problem]:
    files = {
        "ssl_cafile": cluster.ssl_cafile,
        "ssl_certfile": cluster.ssl_certfile,
        "ssl_keyfile": cluster.ssl_keyfile,
    }
    if (cluster.ssl_certfile is None) != (cluster.ssl_keyfile is None):
        lacking = "ssl_certfile" if cluster.ssl_certfile is None else "ssl_keyfile"
        yield Problem(lacking, "missing", "certificate and key together, or neither")
    for option, path in files.items():
        if path is not None and not cluster.security_protocol.endswith("SSL"):
            found = f"set, but security_protocol = {shown(cluster.security_protocol)}"
            yield Problem(option, found, 'nothing, or security_protocol = "SSL" or "SASL_SSL"')
        elif path is not None and not Path(path).is_file():
            yield Problem(option, f"{shown(path)} is not a file", "the path of a PEM file")


def _tiers(name: str, settings: Settings) -> Iterator[Problem]:
    cluster = settings.clusters[name]
    if cluster.backfill is None:
        return
    option = dotted(("clusters", name, "backfill"))
    tiers = [each for each in settings.clusters if settings.clusters[each].tier == "backfill"]
    if cluster.tier == "backfill":
        found = f"{shown(cluster.backfill)} on a cluster of tier backfill"
        yield Problem(option, found, "nothing: only an ingest cluster has a backfill cluster")
    elif cluster.backfill not in tiers:
        allowed = " or ".join(map(shown, tiers)) or "no value: there is no cluster of tier backfill"
        fix = f'Add [clusters.{cluster.backfill}] with tier = "backfill".'
        yield Problem(option, f"{shown(cluster.backfill)} is not one", allowed, fix)


def _deadlines(name: str, settings: Settings) -> Iterator[Problem]:
    cluster, request_ms = settings.clusters[name], settings.http.request_timeout_ms
    if cluster.tier == "ingest" and request_ms > cluster.delivery_timeout_ms:
        option = dotted(("clusters", name, "delivery_timeout_ms"))
        found = f"{cluster.delivery_timeout_ms} is less than http.request_timeout_ms = {request_ms}"
        fix = "A request would outwait its lane; lower http.request_timeout_ms or raise this."
        yield Problem(option, found, f"at least {request_ms}", fix)
    if cluster.lane_stall_ms > cluster.delivery_timeout_ms:
        option = dotted(("clusters", name, "lane_stall_ms"))
        found = f"{cluster.lane_stall_ms} is more than delivery_timeout_ms"
        yield Problem(option, found, f"at most {cluster.delivery_timeout_ms}")
