"""What values must fit together: contradictions refuse to start."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from headgate.config.check_auth import auth_contradictions
from headgate.config.check_clusters import cluster_contradictions
from headgate.config.check_oversize import blob_contradictions
from headgate.config.check_redis import redis_contradictions
from headgate.config.check_spool import spool_contradictions
from headgate.config.check_topics import producer_contradictions, topic_contradictions
from headgate.config.check_tracing import tracing_contradictions
from headgate.config.console_settings import ConsoleSettings
from headgate.config.errors import Problem, shown
from headgate.config.files import missing_files
from headgate.config.names import dotted
from headgate.config.origins import DEFAULT, derived
from headgate.config.settings import Settings


def settle_derived(settings: Settings, origins: dict[str, str]) -> Settings:
    """Fill in what follows from other options; origins whose value is not the plain default change.

    A topic's cluster stays empty when there is not exactly one candidate.
    """
    largest = max((each.delivery_timeout_ms for each in settings.clusters.values()), default=0)
    if largest and origins["redis.quarantine_ms"] == DEFAULT:
        origins["redis.quarantine_ms"] = derived("2 x the largest delivery_timeout_ms")
        redis = dataclasses.replace(settings.redis, quarantine_ms=2 * largest)
        settings = dataclasses.replace(settings, redis=redis)
    ingest = [name for name, each in settings.clusters.items() if each.tier == "ingest"]
    if len(ingest) != 1:
        return settings
    topics = []
    for policy in settings.topics:
        if not policy.cluster:
            origins[dotted(("topics", policy.pattern, "cluster"))] = derived(
                "the only cluster of tier ingest"
            )
            policy = dataclasses.replace(policy, cluster=ingest[0])
        topics.append(policy)
    return dataclasses.replace(settings, topics=tuple(topics))


def contradictions(settings: Settings, origins: Mapping[str, str]) -> list[Problem]:
    """Everything in which these settings, each allowed by itself, do not fit together."""
    found = [
        *_http(settings),
        *_origins(settings),
        *_hosts(settings),
        *auth_contradictions(settings),
        *cluster_contradictions(settings),
        *redis_contradictions(settings.redis),
        *_console(settings.console),
        *blob_contradictions(settings.blobs),
        *topic_contradictions(settings),
        *spool_contradictions(settings),
        *producer_contradictions(settings),
        *tracing_contradictions(settings.tracing),
    ]
    written = {option: origin for option, origin in origins.items() if origin != DEFAULT}
    return [problem._replace(origin=written.get(problem.option, "")) for problem in found]


def _http(settings: Settings) -> Iterator[Problem]:
    http = settings.http
    files = {"http.tls_cert_file": http.tls_cert_file, "http.tls_key_file": http.tls_key_file}
    if len([path for path in files.values() if path is None]) == 1:
        lacking = next(option for option, path in files.items() if path is None)
        yield Problem(lacking, "missing", "certificate and key together, or neither")
    yield from missing_files(files | {"http.tls_client_ca_file": http.tls_client_ca_file})
    if http.tls_client_ca_file is not None and http.tls_cert_file is None:
        yield Problem("http.tls_client_ca_file", "set without http.tls_cert_file", "both, or none")
    if not http.host or re.search(r"[\s/]", http.host):
        yield Problem("http.host", shown(http.host), "an address or a host name")


def _origins(settings: Settings) -> Iterator[Problem]:
    for origin in settings.http.cors_origins:
        if origin != "*" and not re.fullmatch(r"https?://[^/\s*]+", origin):
            expected = 'an origin as browsers send it ("https://app.example"), or "*"'
            yield Problem("http.cors_origins", shown(origin), expected)


def _hosts(settings: Settings) -> Iterator[Problem]:
    for host in settings.http.hosts:
        if host != "*" and not re.fullmatch(r"[A-Za-z0-9_]([\w.\-]*\w)?", host):
            expected = 'a name without scheme and port ("events.example"), or "*"'
            yield Problem("http.hosts", shown(host), expected)


def _console(console: ConsoleSettings) -> Iterator[Problem]:
    url = console.prometheus_url
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        expected = "a URL such as http://prometheus.internal:9090"
        yield Problem("console.prometheus_url", shown(url, secret=True), expected)
