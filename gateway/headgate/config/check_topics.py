"""What the options of topics and producers must fit."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise

from headgate.config.check_oversize import oversize_contradictions
from headgate.config.errors import Problem, shown
from headgate.config.names import dotted
from headgate.config.settings import ProducerSettings, Settings
from headgate.config.well_known import is_well_known
from headgate.core.keys import BadPointer, parse_pointer
from headgate.core.topics.globs import ties
from headgate.core.topics.policy import INTERNAL_PREFIXES, TopicPolicy

# Kafka's own rule for topic names (org.apache.kafka.common.internals.Topic), and our wildcards
_PATTERN = r"[A-Za-z0-9._\-*?]{1,249}"
_PRODUCER_NAME = r"[A-Za-z0-9][\w.\-]{0,99}"
_MAX_TIES = 20  # that are told: a thousand patterns have half a million pairs
_OTHER = "other"  # the metrics' label of every producer that is not configured


def topic_contradictions(settings: Settings) -> Iterator[Problem]:
    """Everything wrong with the topics."""
    ingest = [name for name, each in settings.clusters.items() if each.tier == "ingest"]
    for policy in settings.topics:
        checks = (
            _pattern(policy),
            _cluster(policy, ingest),
            _key(policy),
            _ignore(policy),
            _policy(policy),
            oversize_contradictions(policy, settings.blobs.url is not None),
        )
        for problem in (each for check in checks for each in check):
            path = ("topics", policy.pattern, problem.option)
            yield problem._replace(option=dotted(path).removesuffix('.""'))
        if policy.suppress != "off" and not settings.redis.listed:
            option = dotted(("topics", policy.pattern, "suppress"))
            found = f"{shown(policy.suppress)} without Redis"
            yield Problem(option, found, '"off", or redis.url set', "Set redis.url or redis.urls.")
        if policy.dedupe_ttl_s is not None and not settings.redis.listed:
            option = dotted(("topics", policy.pattern, "dedupe_ttl_s"))
            found = f"{policy.dedupe_ttl_s} without Redis"
            yield Problem(option, found, "not set, or redis.url set", "Set redis.url.")
    for one, other in islice(ties(policy.pattern for policy in settings.topics), _MAX_TIES):
        found = f"ties with {dotted(('topics', other))}: both match some topic equally well"
        yield Problem(dotted(("topics", one)), found, "patterns that differ in literal prefix")


def producer_contradictions(settings: Settings) -> Iterator[Problem]:
    """Everything wrong with the producers."""
    for name, producer in settings.producers.items():
        if not re.fullmatch(_PRODUCER_NAME, name) or name == _OTHER:
            expected = f'letters, digits, ".", "-", "_", at most 100; not "{_OTHER}"'
            yield Problem(dotted(("producers", name)), shown(name), expected)
        for problem in _producer(name, producer):
            yield problem._replace(option=dotted(("producers", name, problem.option)))
    owners = [
        (digest.lower(), name)
        for name, producer in settings.producers.items()
        for digest in producer.token_sha256
    ]
    for (digest, name), (following, other) in pairwise(sorted(owners)):
        if digest == following:
            option = dotted(("producers", other, "token_sha256"))
            yield Problem(option, f"the token of {shown(name)}, too", "a token of its own")
    if any(producer.certificate_names for producer in settings.producers.values()):
        yield from _shared_names(settings.producers)


def _shared_names(producers: Mapping[str, ProducerSettings]) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for name, producer in producers.items():
        for certified in producer.certificate_names or (name,):
            if owners.setdefault(certified, name) != name:
                option = dotted(("producers", name, "certificate_names"))
                found = f"{shown(certified)} is a name of {shown(owners[certified])}, too"
                yield Problem(option, found, "names of its own")


def _producer(name: str, producer: ProducerSettings) -> Iterator[Problem]:
    for digest in producer.token_sha256:
        if not re.fullmatch(r"[0-9A-Fa-f]{64}", digest):
            fix = "Make one with `headgate token NAME`; the token itself does not belong here."
            yield Problem("token_sha256", "not a SHA-256", "64 hexadecimal digits", fix)
        elif is_well_known(digest.lower(), name):
            fix = "Everybody can guess the token. Make a random one: `headgate token NAME`."
            yield Problem("token_sha256", "the hash of a well-known word", "a token's hash", fix)
    for pattern in producer.topics:
        if not re.fullmatch(_PATTERN, pattern):
            yield Problem("topics", shown(pattern), "topic names; * = anything, ? = one character")


def _pattern(policy: TopicPolicy) -> Iterator[Problem]:
    if not re.fullmatch(_PATTERN, policy.pattern) or policy.pattern in (".", ".."):
        expected = "a topic name; * = anything, ? = one character"
        yield Problem("", shown(policy.pattern), expected)
    if policy.pattern.startswith(INTERNAL_PREFIXES):
        expected = f"a name that does not begin with {' or '.join(map(shown, INTERNAL_PREFIXES))}"
        yield Problem("", f"{shown(policy.pattern)} is an internal name", expected)


def _cluster(policy: TopicPolicy, ingest: list[str]) -> Iterator[Problem]:
    if policy.cluster in ingest or not ingest:
        return
    found = f"{shown(policy.cluster)} is not one" if policy.cluster else "missing"
    yield Problem("cluster", found, f"a cluster of tier ingest: {' or '.join(map(shown, ingest))}")


def _key(policy: TopicPolicy) -> Iterator[Problem]:
    yield from _pointers("key", policy.key)
    if "" in policy.key:
        yield Problem("key", '""', "pointers into the document; the whole cannot be a key")


def _ignore(policy: TopicPolicy) -> Iterator[Problem]:
    yield from _pointers("ignore", policy.ignore)
    if "" in policy.ignore:
        yield Problem("ignore", '""', "pointers into the document; without it all are the same")
    if policy.ignore and policy.suppress != "canonical":
        found = f"{shown(policy.ignore)} with suppress = {shown(policy.suppress)}"
        fix = "Bytes are compared as a whole: set suppress, or remove ignore."
        yield Problem("ignore", found, 'suppress = "canonical"', fix)


def _pointers(option: str, pointers: Iterable[str]) -> Iterator[Problem]:
    for pointer in pointers:
        try:
            parse_pointer(pointer)
        except BadPointer:
            expected = 'JSON Pointers such as "/id" or "/customer/id" (RFC 6901)'
            fix = f"Did you mean {shown('/' + pointer)}?" if not pointer.startswith("/") else ""
            yield Problem(option, shown(pointer), expected, fix)


def _policy(policy: TopicPolicy) -> Iterator[Problem]:
    if policy.kind == "state" and policy.keyless == "spread":
        found = '"spread" on a topic of kind = "state"'
        yield Problem("keyless", found, '"reject": a state without a key is nobody\'s state')
    if policy.facts_one_in > 1 and not policy.facts:
        found = f"{policy.facts_one_in} without facts"
        yield Problem("facts_one_in", found, "1, or a topic that tells facts", "Set facts = true.")
    yield from _coalescing(policy)


def _coalescing(policy: TopicPolicy) -> Iterator[Problem]:
    quiet, longest = policy.coalesce_quiet_ms, policy.coalesce_max_delay_ms
    if quiet is None:
        for option in ("coalesce_max_delay_ms", "coalesce_leading"):
            if getattr(policy, option):
                found = f"{shown(getattr(policy, option))} without coalesce_quiet_ms"
                yield Problem(option, found, "a topic that coalesces", "Set coalesce_quiet_ms.")
        return
    if policy.kind != "state":
        found = f'{shown(quiet)} on a topic of kind = "{policy.kind}"'
        expected = 'kind = "state": of events each one counts, so none may be left out'
        yield Problem("coalesce_quiet_ms", found, expected)
    if longest is not None and longest < quiet:
        expected = f"at least coalesce_quiet_ms = {quiet}"
        yield Problem("coalesce_max_delay_ms", shown(longest), expected)
    if policy.oversize != ("reject",):
        found = f"{shown(policy.oversize)} on a topic that coalesces"
        expected = '["reject"]: what is held is published as one record'
        yield Problem(
            "oversize", found, expected, "Leave out coalesce_quiet_ms, or the strategies."
        )
