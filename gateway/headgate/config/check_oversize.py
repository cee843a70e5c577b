"""What the oversize policy's options must fit: the topic's kind, a rule for split, a blob store."""

from collections.abc import Iterator
from importlib.util import find_spec

from headgate.config.backend_settings import BlobSettings
from headgate.config.errors import Problem, shown
from headgate.core.keys import BadPointer, parse_pointer
from headgate.core.oversize.blob_names import root_problem
from headgate.core.oversize.strategies import SplitRule
from headgate.core.topics.policy import TopicPolicy


def oversize_contradictions(policy: TopicPolicy, has_blobs: bool) -> Iterator[Problem]:
    """Everything wrong with one topic's oversize policy; `option` is the bare name."""
    strategies = policy.oversize
    if not strategies or len(set(strategies)) < len(strategies) or "reject" in strategies[:-1]:
        expected = 'strategies, once each; "reject" can only be the last'
        yield Problem("oversize", shown(strategies), expected)
    if "chunk" in strategies and policy.kind == "state":
        found = '"chunk" on a topic of kind = "state"'
        expected = "chunks on topics of events: compaction keeps the last record of a key"
        yield Problem("oversize", found, expected, 'Use "split" or "claim-check".')
    if "claim-check" in strategies and not has_blobs:
        found = '"claim-check" without a blob store'
        fix = 'Set url in [blobs], such as "file:///var/lib/headgate/blobs".'
        yield Problem("oversize", found, "blobs.url set", fix)
    yield from _split(policy)


def blob_contradictions(blobs: BlobSettings) -> Iterator[Problem]:
    """Everything wrong with the blob store."""
    if blobs.url is None:
        return
    wrong = root_problem(blobs.url)
    if wrong is not None:
        yield Problem("blobs.url", shown(blobs.url), f'"file:///folder" or "s3://bucket": {wrong}')
    elif blobs.url.startswith("s3://") and find_spec("s3fs") is None:
        found = f"{shown(blobs.url)} needs the package s3fs"
        yield Problem("blobs.url", found, "s3fs installed", "Run: pip install 'headgate[s3]'")


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
        yield Problem("split", shown(rule), _pointers(rule))


def _is_inside(pointer: str) -> bool:
    try:
        return bool(parse_pointer(pointer))
    except BadPointer:
        return False


def _pointers(rule: SplitRule) -> str:
    wrong = "pointer" if not _is_inside(rule.pointer) else "key"
    return f'JSON Pointers into the document such as "/options" and "/id"; {wrong} is none'
