"""Reads of the state that a check judges: the topics of every cluster and the settings of Redis."""

import asyncio
import re
import socket
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    InvalidResponse,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from headgate.audits.facts import FACTS_TOPIC, facts_cluster
from headgate.check.rules import (
    Finding,
    error,
    judge_facts,
    judge_held,
    judge_missing,
    judge_redis,
    judge_runs,
    judge_topic,
    judge_unmatched,
    ok,
    warn,
)
from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.config.settings import Settings
from headgate.errors_in_words import (
    MAY_EXPECT_TLS,
    connection_error,
    does_not_speak_tls,
    is_closed_early,
    is_untrusted,
)
from headgate.kafka.access import NoTokenError
from headgate.kafka.options import cluster_options
from headgate.kafka.topics import READ_ERRORS, TopicReader, causes_of
from headgate.model.policy import PolicyTable
from headgate.model.text import counted
from headgate.model.topics import TopicState
from headgate.redis.sentinel import NO_INTRODUCTION, resolved

_ANSWER_S = 10.0  # aiokafka tries its bootstrap servers one after the other
_REFUSED_LOGINS = ("WRONGPASS", "NOAUTH", "ERR AUTH", "invalid username-password")
_WITH_TLS: Final = ("SSL", "SASL_SSL")
_OFFERED: Final = re.compile(r"Enabled mechanisms are: \[([^\]]*)\]")  # in aiokafka's text
_MIN_REDIS_S = 2.0  # a check may wait longer than a request does


class _Cluster(NamedTuple):
    """The topics of a cluster, None if it did not answer, and the findings about it."""

    name: str
    topics: Mapping[str, TopicState] | None
    findings: list[Finding]


async def check_connections(settings: Settings) -> list[Finding]:
    """Ask all clusters and Redis at the same time, and judge the answers."""
    redis = asyncio.ensure_future(_check_redis(settings.redis))
    clusters = await asyncio.gather(
        *(_read_cluster(name, cluster) for name, cluster in settings.clusters.items())
    )
    findings = [finding for cluster in clusters for finding in cluster.findings]
    return findings + _judge_clusters(clusters, settings) + await redis


def _judge_clusters(clusters: list[_Cluster], settings: Settings) -> list[Finding]:
    table = PolicyTable(settings.topics)
    findings: list[Finding] = []
    existing: set[str] = set()
    is_complete = True
    facts_in = facts_cluster({name: each.tier for name, each in settings.clusters.items()})
    for cluster in clusters:
        if settings.clusters[cluster.name].tier != "ingest":
            continue
        if cluster.topics is None:
            is_complete = False  # its topics are unknown, not missing
            continue
        for name, state in sorted(cluster.topics.items()):
            policy = table.match(name)
            if policy is not None and policy.cluster == cluster.name:
                existing.add(name)
                findings += judge_topic(state, policy, settings)
        findings += judge_unmatched(cluster.topics, table)
        findings += judge_held(cluster.topics.values(), table)
        if cluster.name == facts_in:
            findings += judge_facts(cluster.topics.get(FACTS_TOPIC), table, cluster.name)
    if is_complete:
        findings += judge_missing(settings, existing)
    return findings


async def _read_cluster(name: str, cluster: ClusterSettings) -> _Cluster:
    subject = f"cluster {name}"
    servers = ",".join(cluster.bootstrap_servers)
    reader = TopicReader(name, cluster_options(cluster))
    try:
        async with asyncio.timeout(_ANSWER_S):
            topics = await reader.read(lambda topic: True, {})
    except READ_ERRORS as failure:
        why = connection_error(failure)
        if cluster.security_protocol in _WITH_TLS:
            why = why.replace(MAY_EXPECT_TLS, "it may not speak TLS")
        text = f"no answer from {servers}: {why}"
        return _Cluster(name, None, [error(subject, text, connection_fix(failure, name, cluster))])
    finally:
        await reader.close()
    return _Cluster(
        name, topics, [ok(subject, f"{servers} answers, {counted(len(topics), 'topic')}")]
    )


def connection_fix(failure: BaseException, name: str, cluster: ClusterSettings) -> str:
    """Return the fixes for a cluster that does not answer, one for each cause.

    Args:
        failure: Why it does not answer.
        name: The name of the cluster in the configuration.
        cluster: Its settings.
    """
    return " ".join(dict.fromkeys(_fix(each, name, cluster) for each in causes_of(failure)))


def _fix(failure: BaseException, name: str, cluster: ClusterSettings) -> str:
    section = f"clusters.{name}"
    login = _login_fix(failure, section, cluster)
    return login or _transport_fix(failure, section, cluster.security_protocol)


def _login_fix(failure: BaseException, section: str, cluster: ClusterSettings) -> str:
    """Return the fix for a refused login; empty if the failure is another one."""
    if isinstance(failure, (AuthenticationFailedError, SaslAuthenticationFailed)):
        if cluster.sasl_mechanism == "OAUTHBEARER":
            return f"Check {section}.sasl_oauth_client_id and the permissions of this client."
        return f"Correct {section}.sasl_username and sasl_password (or sasl_password_file)."
    if isinstance(failure, NoTokenError):
        return (
            f"Correct {section}.sasl_oauth_token_url, sasl_oauth_client_id and "
            "sasl_oauth_client_secret (or sasl_oauth_client_secret_file)."
        )
    if isinstance(failure, (AuthenticationMethodNotSupported, UnsupportedSaslMechanismError)):
        offered = _OFFERED.search(str(failure))
        choice = f"one of {offered[1]}" if offered else "a mechanism of this listener"
        return f"Set {section}.sasl_mechanism, which is {cluster.sasl_mechanism}, to {choice}."
    if isinstance(failure, IllegalSaslStateError):
        without_sasl = cluster.security_protocol.removeprefix("SASL_")
        return (
            f"The listener takes no SASL: name the listener with SASL in {section}."
            f"bootstrap_servers, or set {section}.security_protocol to {without_sasl}."
        )
    return ""


def _transport_fix(failure: BaseException, section: str, protocol: str) -> str:
    """Return the fix for a failed connection or handshake."""
    if is_untrusted(failure):
        return f"Set {section}.ssl_cafile to the authority that issued the broker's certificate."
    is_early = is_closed_early(failure)
    if does_not_speak_tls(failure) or (protocol in _WITH_TLS and is_early):
        plain = "SASL_PLAINTEXT" if "SASL" in protocol else "PLAINTEXT"
        return (
            f"The listener may not speak TLS: name the listener with TLS in {section}."
            f"bootstrap_servers, or set {section}.security_protocol to {plain}."
        )
    if is_early:
        tls = "SASL_SSL" if "SASL" in protocol else "SSL"
        return (
            f"The listener may expect TLS or SASL: {section}.security_protocol is {protocol}. With "
            f"TLS it is {tls}."
        )
    if isinstance(failure, socket.gaierror):
        return f"Correct the host name in {section}.bootstrap_servers, or check DNS."
    return (
        f"Check {section}.bootstrap_servers, the network, and {section}.security_protocol, which "
        f"is {protocol}."
    )


async def _check_redis(redis: RedisSettings) -> list[Finding]:
    servers = redis.servers
    if not servers:
        text = "not configured: no Idempotency-Key is checked, so a retry may write a second record"
        return [warn("redis", text, "Set redis.url, unless your consumers recognise repeats.")]
    timeout_s = max(redis.timeout_ms / 1000, _MIN_REDIS_S)
    names = ["redis"] if len(servers) == 1 else [f"redis {name}" for name in servers]
    answers = await asyncio.gather(
        *(
            _check_server(name, url, timeout_s, redis.ssl_cafile)
            for name, url in zip(names, servers.values(), strict=True)
        )
    )
    runs = dict(zip(names, (server.run_id for server in answers), strict=True))
    return [finding for server in answers for finding in server.findings] + list(judge_runs(runs))


class _Server(NamedTuple):
    """The findings about a Redis server, and the id of its process, None if it did not answer."""

    run_id: str | None
    findings: list[Finding]


async def _check_server(name: str, url: str, timeout_s: float, ca_file: str | None) -> _Server:
    try:
        address = await resolved(url)
    except (RedisError, OSError) as failure:
        fix = "Check the hosts and the service in its URL."
        text = f"no sentinel of {_hosts(url)} names a master: {connection_error(failure)}"
        return _Server(None, [error(name, text, fix)])
    client = Redis.from_url(
        address,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        **NO_INTRODUCTION,
    )
    try:
        info = await client.info()
        findings = list(judge_redis(info, await _redis_config(client), name))
    except (RedisError, OSError, TimeoutError) as failure:
        fix = (
            f"{_redis_fix(failure, ca_file, address)}; until it answers nothing is suppressed, and "
            'topics with redis_loss = "refuse" refuse their events.'
        )
        why = connection_error(failure)
        if _may_lack_tls(failure, address):
            why = f"{why.partition(';')[0]}; it may not speak TLS"
        text = f"no answer from {_hosts(address)}: {why}"
        return _Server(None, [error(name, text, fix)])
    finally:
        await client.aclose()
    answers = ok(name, f"answers, version {info.get('redis_version', 'unknown')}")
    return _Server(info.get("run_id"), [answers, *findings])


def _redis_fix(failure: BaseException, ca_file: str | None, url: str = "redis://") -> str:
    """Return the fix for a Redis that does not answer; `ca_file` is redis.ssl_cafile."""
    if _may_lack_tls(failure, url):
        return "Use redis:// if Redis has no TLS. Else correct the address, or check firewalls"
    if isinstance(failure, InvalidResponse):
        return "Correct the port in its URL: another program listens there, such as an HTTP server"
    if _is_refused_login(failure):
        return "Correct the user and the password in its URL"
    if is_untrusted(failure):
        given = f"is {ca_file}" if ca_file else "is not set"
        return f"Set redis.ssl_cafile, which {given}, to the authority that issued its certificate"
    if is_closed_early(failure) or "closed" in str(failure):  # redis-py's own words
        return (
            "Correct the port in its URL if another program listens there, such as Kafka. Use "
            "rediss:// if Redis expects TLS"
        )
    return "Check its URL"


def _may_lack_tls(failure: BaseException, url: str) -> bool:
    """Return whether Redis may wait for a command, while the client waits for a handshake."""
    return url.startswith("rediss:") and isinstance(failure, RedisTimeoutError | TimeoutError)


def _hosts(url: str) -> str:
    """Return the hosts and ports of a URL, without user and password; of a unix socket its path."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or parts.path


def _is_refused_login(error: BaseException) -> bool:
    """Return whether Redis refused the user or the password."""
    is_login = isinstance(error, AuthenticationError) or str(error).startswith(_REFUSED_LOGINS)
    return is_login and not isinstance(error, NoPermissionError)


async def _redis_config(client: Any) -> Mapping[str, str] | None:
    """Return CONFIG GET of the judged settings; None if it is forbidden, as in managed Redis."""
    config: dict[str, str] = {}
    try:
        for setting in ("maxmemory-policy", "save"):  # Redis before 7 takes one a call
            config |= await client.config_get(setting)
    except (NoPermissionError, ResponseError):
        return None
    return config
