"""Contradictions between the options of topics and producers, and of the spool and blobs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path

from headgate.config.backend_settings import BlobSettings
from headgate.config.problems import Problem, shown
from headgate.config.settings import ProducerSettings, Settings, dotted
from headgate.model.keys import BadPointer, parse_pointer
from headgate.model.oversize import root_problem
from headgate.model.policy import INTERNAL_PREFIXES, TopicPolicy
from headgate.model.text import closest, counted
from headgate.model.topics import ties

# Kafka's own rule for topic names (org.apache.kafka.common.internals.Topic), and our wildcards
_PATTERN = r"[A-Za-z0-9._\-*?]{1,249}"
_PRODUCER_NAME = r"[A-Za-z0-9][\w.\-]{0,99}"
_MAX_TIES = 20  # ties that are reported: a thousand patterns have half a million pairs
_ENDINGS = ("", "1", "2", "3", "12", "123", "1234", "!", "\n")
_OTHER = "other"  # the metrics' label of every producer that is not configured


def _oversize(policy: TopicPolicy, has_blobs: bool) -> Iterator[Problem]:
    """Yield everything wrong with a topic's oversize policy; `option` is the bare name."""
    strategies = policy.oversize
    if not strategies or len(set(strategies)) < len(strategies) or "reject" in strategies[:-1]:
        expected = 'strategies, once each; "reject" can only be the last'
        yield Problem("oversize", shown(strategies), expected)
    if "chunk" in strategies and policy.kind == "state":
        text = '"chunk" on a topic of kind = "state"'
        expected = "chunks on topics of events: compaction keeps the last record of a key"
        yield Problem("oversize", text, expected, 'Use "split" or "claim-check".')
    if "claim-check" in strategies and not has_blobs:
        text = '"claim-check" without a blob store'
        fix = 'Set url in [blobs], such as "file:///var/lib/headgate/blobs".'
        yield Problem("oversize", text, "blobs.url set", fix)
    yield from _split(policy)


def blob_contradictions(blobs: BlobSettings) -> Iterator[Problem]:
    """Yield everything wrong with the blob store."""
    if blobs.url is None:
        return
    fault = root_problem(blobs.url)
    if fault is not None:
        yield Problem("blobs.url", shown(blobs.url), f'"file:///folder" or "s3://bucket": {fault}')
    elif blobs.url.startswith("s3://") and find_spec("s3fs") is None:
        text = f"{shown(blobs.url)} needs the package s3fs"
        yield Problem("blobs.url", text, "s3fs installed", "Run: pip install 'headgate[s3]'")


def _split(policy: TopicPolicy) -> Iterator[Problem]:
    rule = policy.split
    if rule is None:
        if "split" in policy.oversize:
            fix = 'Add split = {pointer = "/options", key = "/id"}.'
            yield Problem("split", "missing", "where the array is, as oversize has split", fix)
        return
    if "split" not in policy.oversize:
        fix = 'Add "split" to oversize, or remove it.'
        yield Problem("split", shown(rule), 'to be set only with "split" in oversize', fix)
    if not (_is_inside(rule.pointer) and _is_inside(rule.key)):
        fault = "pointer" if not _is_inside(rule.pointer) else "key"
        pointers = 'JSON Pointers into the document such as "/options" and "/id"'
        yield Problem("split", shown(rule), f"{pointers}; {fault} is none")


def _is_inside(pointer: str) -> bool:
    try:
        return bool(parse_pointer(pointer))
    except BadPointer:
        return False


def topic_contradictions(settings: Settings) -> Iterator[Problem]:
    """Yield everything wrong with the topics."""
    ingest = [name for name, each in settings.clusters.items() if each.tier == "ingest"]
    for policy in settings.topics:
        checks = (
            _pattern(policy),
            _cluster(policy, ingest, settings),
            _key(policy),
            _ignore(policy),
            _policy(policy),
            _oversize(policy, settings.blobs.url is not None),
        )
        for problem in (each for check in checks for each in check):
            path = ("topics", policy.pattern, problem.option)
            yield problem._replace(option=dotted(path).removesuffix('.""'))
        if policy.suppress != "off" and not settings.redis.listed:
            option = dotted(("topics", policy.pattern, "suppress"))
            text = f"{shown(policy.suppress)} without Redis"
            yield Problem(option, text, '"off", or redis.url set', "Set redis.url or redis.urls.")
        if policy.dedupe_ttl_s is not None and not settings.redis.listed:
            option = dotted(("topics", policy.pattern, "dedupe_ttl_s"))
            text = f"{policy.dedupe_ttl_s} without Redis"
            yield Problem(option, text, "not set, or redis.url set", "Set redis.url.")
    for pattern, other in islice(ties(policy.pattern for policy in settings.topics), _MAX_TIES):
        text = f"ties with {dotted(('topics', other))}: both match some topic equally well"
        yield Problem(dotted(("topics", pattern)), text, "patterns that differ in literal prefix")


def producer_contradictions(settings: Settings) -> Iterator[Problem]:
    """Yield everything wrong with the producers."""
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
                text = f"{shown(certified)} is a name of {shown(owners[certified])}, too"
                yield Problem(option, text, "names of its own")


def _producer(name: str, producer: ProducerSettings) -> Iterator[Problem]:
    for digest in producer.token_sha256:
        if not re.fullmatch(r"[0-9A-Fa-f]{64}", digest):
            fix = "Make one with `headgate token NAME`; the token itself does not belong here."
            text = f"not a SHA-256 ({counted(len(digest), 'character')})"
            yield Problem("token_sha256", text, "64 hexadecimal digits", fix)
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


def _cluster(policy: TopicPolicy, ingest: list[str], settings: Settings) -> Iterator[Problem]:
    if policy.cluster in ingest or not ingest:
        return
    if policy.cluster:
        yield not_a_cluster("cluster", policy.cluster, "ingest", settings)
    else:
        expected = f"a cluster of tier ingest: {' or '.join(map(shown, ingest))}"
        yield Problem("cluster", "missing", expected)


def not_a_cluster(option: str, name: str, tier: str, settings: Settings) -> Problem:
    """Return the problem of an option that names no cluster of its tier, with those that exist."""
    names = [each for each, cluster in settings.clusters.items() if cluster.tier == tier]
    listed = f": {' or '.join(map(shown, names))}" if names else ", but there is none"
    expected = f"a cluster of tier {tier}{listed}"
    if name in settings.clusters:
        other = settings.clusters[name].tier
        return Problem(option, f"{shown(name)} is a cluster of tier {other}", expected)
    fix = closest(name, names) or f'Add [clusters.{name}] with tier = "{tier}".'
    return Problem(option, f"there is no cluster {shown(name)}", expected, fix)


def _key(policy: TopicPolicy) -> Iterator[Problem]:
    yield from _pointers("key", policy.key)
    if "" in policy.key:
        yield Problem("key", '""', "pointers into the document; the whole cannot be a key")


def _ignore(policy: TopicPolicy) -> Iterator[Problem]:
    yield from _pointers("ignore", policy.ignore)
    if "" in policy.ignore:
        yield Problem("ignore", '""', "pointers into the document; without it all are the same")
    if policy.ignore and policy.suppress != "canonical":
        text = f"{shown(policy.ignore)} with suppress = {shown(policy.suppress)}"
        fix = "Bytes are compared as a whole: set suppress, or remove ignore."
        yield Problem("ignore", text, 'suppress = "canonical"', fix)


def _pointers(option: str, pointers: Iterable[str]) -> Iterator[Problem]:
    for pointer in pointers:
        try:
            parse_pointer(pointer)
        except BadPointer:
            expected = 'JSON Pointers such as "/id" or "/customer/id" (RFC 6901)'
            fix = "" if pointer.startswith("/") else f"Did you mean {shown(f'/{pointer}')}?"
            yield Problem(option, shown(pointer), expected, fix)


def _policy(policy: TopicPolicy) -> Iterator[Problem]:
    if policy.kind == "state" and policy.keyless == "spread":
        text = '"spread" on a topic of kind = "state"'
        yield Problem("keyless", text, '"reject": a state needs a key')
    if policy.facts_one_in > 1 and not policy.facts:
        text = f"{policy.facts_one_in} without facts"
        yield Problem("facts_one_in", text, "1, or a topic that tells facts", "Set facts = true.")
    yield from _coalescing(policy)


def _coalescing(policy: TopicPolicy) -> Iterator[Problem]:
    quiet, longest = policy.coalesce_quiet_ms, policy.coalesce_max_delay_ms
    if quiet is None:
        for option in ("coalesce_max_delay_ms", "coalesce_leading"):
            if getattr(policy, option):
                text = f"{shown(getattr(policy, option))} without coalesce_quiet_ms"
                yield Problem(option, text, "a topic that coalesces", "Set coalesce_quiet_ms.")
        return
    if policy.kind != "state":
        text = f'{shown(quiet)} on a topic of kind = "{policy.kind}"'
        expected = 'kind = "state": of events each one counts, so none may be left out'
        yield Problem("coalesce_quiet_ms", text, expected)
    if longest is not None and longest < quiet:
        expected = f"at least coalesce_quiet_ms = {quiet}"
        yield Problem("coalesce_max_delay_ms", shown(longest), expected)
    if policy.oversize != ("reject",):
        text = f"{shown(policy.oversize)} on a topic that coalesces"
        expected = '["reject"]: a held event is published as one record'
        yield Problem("oversize", text, expected, "Leave out coalesce_quiet_ms, or the strategies.")


def spool_contradictions(settings: Settings) -> Iterator[Problem]:
    """Yield everything wrong with the spool and the topics that use it."""
    spooling = [policy for policy in settings.topics if policy.spool]
    for policy in spooling:
        for problem in _topic(policy, settings):
            option = dotted(("topics", policy.pattern, problem.option))
            yield problem._replace(option=option)
    http = settings.http
    if spooling and http.workers > 1:
        text = f"{http.workers}, and {spooling[0].pattern} spools"
        expected = "1: workers do not see each other's spooled events, and would overtake them"
        yield Problem("http.workers", text, expected, "Run more gateways, each with its folder.")


def _topic(policy: TopicPolicy, settings: Settings) -> Iterator[Problem]:
    if settings.spool.path is None:
        fix = 'Set path in [spool], such as "/var/lib/headgate/spool".'
        yield Problem("spool", "true without a folder", "spool.path set", fix)
    timeout_ms = settings.http.request_timeout_ms
    if policy.spool_after_ms >= timeout_ms:
        expected = f"less than http.request_timeout_ms = {timeout_ms}"
        yield Problem("spool_after_ms", shown(policy.spool_after_ms), expected)
    if policy.coalesces:
        text = "true on a topic that coalesces"
        expected = "false: its events are held in Kafka"
        yield Problem("spool", text, expected, "Leave out coalesce_quiet_ms, or spool.")
    if policy.oversize != ("reject",):
        text = f"true with oversize = {shown(policy.oversize)}"
        expected = 'oversize = ["reject"]: a spooled event is published as one record'
        yield Problem("spool", text, expected, "Leave out the strategies, or spool.")


def is_well_known(digest: str, name: str) -> bool:
    """Return whether a hash is that of a well-known word, or of the producer's own name.

    A producer with such a token would be open to everyone.

    Args:
        digest: SHA-256 in hexadecimal digits, in lower case.
        name: The producer's name.
    """
    return digest in _well_known_hashes() or digest in map(_sha256, _variants(name))


@cache
def _well_known_hashes() -> frozenset[str]:
    return frozenset(_sha256(text) for word in well_known_words() for text in _variants(word))


def well_known_words() -> set[str]:
    """Return words that people use as tokens while they try things, and that others guess.

    They are names of programs, placeholders of documents and the usual heads of lists of leaked
    passwords, without the cases and endings that `_variants` adds.
    """
    return {"", *Path(__file__).with_name("well_known.txt").read_text(encoding="utf-8").split()}


def _variants(word: str) -> Iterator[str]:
    """Yield the word as people write it, also with the newline of `echo`."""
    for written in {word, word.capitalize(), word.upper()}:
        for ending in _ENDINGS:
            yield f"{written}{ending}"


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
