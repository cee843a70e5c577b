"""Options from the gateway's configuration: clusters, and the clusters of topics.

The gateway's own loader (headgate.config) need not be installed for the jobs. So they read the same
TOML file and environment themselves, and only the options that concern them. `headgate check
--config F` checks the whole file.
"""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headgate.errors_in_words import (
    FileTrouble,
    PemFile,
    authorities_trouble,
    file_error,
    key_pair_trouble,
)
from headgate.kafka.access import ClusterAccess
from headgate.model.policy import INTERNAL_PREFIXES, PolicyTable, TopicPolicy
from headgate.model.topics import Globs, is_glob
from headgate_spark.job.command_line import USAGE, JobError

# ---- access to a cluster with aiokafka: plain values, because tasks get them


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(ClusterAccess):
    """One cluster by its name.

    `compression` applies to the batches that are written; `none` for none.
    """

    name: str
    compression: str = "zstd"


_OPTIONS = ("security_protocol", "sasl_mechanism", "sasl_username", "ssl_cafile", "ssl_certfile",
            "ssl_keyfile", "compression")  # fmt: skip


def connection(
    name: str, servers: str, password: str | None, given: Mapping[str, Any]
) -> Connection:
    """Return the connection from the options of `[clusters.<name>]`."""
    chosen: dict[str, Any] = {
        option: str(given[option]) for option in _OPTIONS if given.get(option)
    }
    return Connection(servers, name=name, sasl_password=password, **chosen)


# ---- clusters and policies from the configuration


_PREFIX = "HEADGATE_CLUSTERS__"
_PKCS8 = b"-----BEGIN PRIVATE KEY-----"
_MAX_REQUEST_MS = 30_000  # Kafka's default
# Options of a cluster, and what Kafka's Java client calls them.
_CLIENT_OPTIONS = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "ssl_cafile": "ssl.truststore.location",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Kafka cluster.

    Attributes:
        client: Options of Kafka's Java client, without Spark's `kafka.`.
        connection: The connection for aiokafka.
        backfill: The cluster with its mirror; None if there is none.
        patience_ms: Time for which Spark waits for unavailable brokers.
    """

    name: str
    tier: str
    client: Mapping[str, str] = field(repr=False)  # it has the password and the private key
    connection: Connection
    backfill: str | None = None
    patience_ms: int = 45_000

    @property
    def address(self) -> str:
        """Return the cluster with its option, for people."""
        servers = self.client["bootstrap.servers"]
        return f"cluster {self.name} (clusters.{self.name}.bootstrap_servers: {servers})"

    @property
    def waiting(self) -> Mapping[str, str]:
        """Return the time limits of the Java client for a wait of about `patience_ms`."""
        total_ms, request_ms = str(self.patience_ms), str(min(self.patience_ms, _MAX_REQUEST_MS))
        return {
            "default.api.timeout.ms": total_ms,
            "request.timeout.ms": request_ms,
            "delivery.timeout.ms": total_ms,
            "max.block.ms": total_ms,
        }


@dataclass(frozen=True, slots=True)
class JobConfig:
    """Clusters by name, and the policies of topics."""

    clusters: Mapping[str, Cluster]
    policies: PolicyTable

    def cluster_of(self, topic: str) -> Cluster | None:
        """Return a topic's cluster: that of its policy, or else the only one of tier ingest."""
        policy = self.policies.match(topic)
        if policy is None:
            return None
        return self.clusters.get(policy.cluster) if policy.cluster else self._only_ingest()

    def patient(self, patience_s: float) -> "JobConfig":
        """Return the configuration with this time limit for all clusters."""
        patience_ms = round(patience_s * 1000)
        clusters = {
            name: replace(cluster, patience_ms=patience_ms)
            for name, cluster in self.clusters.items()
        }
        return replace(self, clusters=clusters)

    def _only_ingest(self) -> Cluster | None:
        ingest = [cluster for cluster in self.clusters.values() if cluster.tier == "ingest"]
        return ingest[0] if len(ingest) == 1 else None


def read_config(file: Path, environment: Mapping[str, str]) -> JobConfig:
    """Read the file, overridden by the environment. Raises JobError with the option's name."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"--config {file}: it is not TOML: {error}", USAGE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"--config {file}: {file_error(error)}", USAGE) from error
    sections = _sections(content, "clusters")
    clusters = {name: _cluster(name, given, environment) for name, given in sections.items()}
    if not clusters:
        raise JobError(f"--config {file}: no [clusters.<name>] section", USAGE)
    policies = [_policy(pattern, given) for pattern, given in _sections(content, "topics").items()]
    return JobConfig(clusters, PolicyTable(policies))


def _sections(content: Mapping[str, Any], name: str) -> Mapping[str, Mapping[str, Any]]:
    sections = content.get(name, {})
    if not isinstance(sections, dict) or not all(
        isinstance(section, dict) for section in sections.values()
    ):
        raise JobError(
            f"{name}: write [{name}.NAME] sections (`headgate check` checks the whole file)", USAGE
        )
    return sections


def _cluster(name: str, section: Mapping[str, Any], environment: Mapping[str, str]) -> Cluster:
    given = {**section, **_from_environment(name, environment)}
    servers = given.get("bootstrap_servers")
    if not servers:
        raise JobError(f"clusters.{name}.bootstrap_servers is missing", USAGE)
    if not isinstance(servers, str | list):
        raise JobError(
            f'clusters.{name}.bootstrap_servers: expected a list such as ["HOST:9092"]', USAGE
        )
    servers = servers if isinstance(servers, str) else ",".join(map(str, servers))
    tier = given.get("tier", "ingest")
    if tier not in ("ingest", "backfill"):
        raise JobError(f'clusters.{name}.tier = "{tier}": expected "ingest" or "backfill"', USAGE)
    if trouble := _pem_trouble(name, given):
        raise JobError(str(trouble), USAGE)
    client = {"bootstrap.servers": servers}
    for option, theirs in _CLIENT_OPTIONS.items():
        if given.get(option):
            client[theirs] = str(given[option])
    if given.get("ssl_cafile"):
        client["ssl.truststore.type"] = "PEM"
    if given.get("ssl_certfile"):
        client |= _own_certificate(name, given)
    if given.get("sasl_mechanism"):
        client["sasl.jaas.config"] = _login(name, given)
    aiokafka = connection(name, servers, _password(name, given), given)
    return Cluster(name, tier, client, aiokafka, given.get("backfill") or None)


def _pem_trouble(name: str, given: Mapping[str, Any]) -> FileTrouble | None:
    """Return which PEM file of a cluster cannot be used, and why; None if all can."""
    files = {
        option: PemFile(f"clusters.{name}.{option}", str(given[option]))
        for option in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
        if given.get(option)
    }
    if "ssl_cafile" in files and (trouble := authorities_trouble(files["ssl_cafile"])):
        return trouble
    if "ssl_certfile" not in files:
        return None
    key = files.get("ssl_keyfile")
    if key is None:
        return FileTrouble(f"clusters.{name}.ssl_keyfile", "missing", "Give the certificate's key.")
    if trouble := key_pair_trouble(files["ssl_certfile"], key):
        return trouble
    if _PKCS8 not in Path(key.path).read_bytes():
        fix = "Convert it: openssl pkcs8 -topk8 -nocrypt -in FILE -out FILE.pem"
        return key.trouble("Kafka's Java client takes a key in PKCS #8 only", fix)
    return None


def _own_certificate(name: str, given: Mapping[str, Any]) -> Mapping[str, str]:
    """Return certificate and key as PEM text, which Kafka's Java client needs."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _text_of(name, "ssl_certfile", given),
        "ssl.keystore.key": _text_of(name, "ssl_keyfile", given),
    }


def _password(name: str, given: Mapping[str, Any]) -> str | None:
    if given.get("sasl_password") is None and given.get("sasl_password_file"):
        return _text_of(name, "sasl_password_file", given).strip("\r\n")
    return given.get("sasl_password")


def _login(name: str, given: Mapping[str, Any]) -> str:
    password = _password(name, given)
    mechanism = str(given["sasl_mechanism"])
    if mechanism == "OAUTHBEARER":
        detail = f"clusters.{name}.sasl_mechanism: the jobs have no OAUTHBEARER; use SCRAM or TLS"
        raise JobError(detail, USAGE)
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    user, secret = _quoted(str(given.get("sasl_username", ""))), _quoted(str(password or ""))
    return f"org.apache.kafka.common.security.{module} required username={user} password={secret};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text_of(name: str, option: str, given: Mapping[str, Any]) -> str:
    try:
        return Path(str(given.get(option, ""))).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"clusters.{name}.{option}: {error}", USAGE) from error


def _from_environment(name: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    prefix = f"{_PREFIX}{name.upper().replace('-', '_')}__"
    return {
        option.removeprefix(prefix).lower(): value
        for option, value in environment.items()
        if option.startswith(prefix)
    }


def _policy(pattern: str, given: Mapping[str, Any]) -> TopicPolicy:
    return TopicPolicy(
        pattern,
        cluster=str(given.get("cluster", "")),
        coalesce_quiet_ms=given.get("coalesce_quiet_ms"),
        coalesce_max_delay_ms=given.get("coalesce_max_delay_ms"),
        facts=given.get("facts") is True,
    )


def chosen_topics(
    wanted: str | None, config: JobConfig, cluster: Cluster, existing: set[str]
) -> list[str]:
    """Return the cluster's topics that match `wanted` (names and globs, separated by commas).

    None selects all topics of the configuration. A name without a topic is left out; see
    `must_exist`.
    """
    owned = {topic for topic in existing if _is_of(config, cluster, topic)}
    if wanted is None:
        return sorted(owned)
    chosen: set[str] = set()
    for pattern in filter(None, (part.strip() for part in wanted.split(","))):
        matching = set(filter(Globs((pattern,)).match, owned))
        if pattern in existing:
            matching.add(pattern)
        chosen |= matching
    return sorted(chosen)


def must_exist(wanted: str | None, cluster: Cluster, existing: Collection[str]) -> None:
    """Raise JobError if `wanted` has a name (no glob) that the cluster does not have."""
    parts = {part.strip() for part in (wanted or "").split(",")}
    missing = sorted(part for part in parts - set(existing) if part and not is_glob(part))
    if missing:
        topics = ", ".join(sorted(existing)) or "none"
        raise JobError(
            f"cluster {cluster.name} has no topic {missing[0]!r}; it has {topics}", USAGE
        )


def _is_of(config: JobConfig, cluster: Cluster, topic: str) -> bool:
    if topic.startswith(INTERNAL_PREFIXES):
        return False
    return config.cluster_of(topic) == cluster
