"""What reads a body where there is no scanner, behind the scanner's interface."""

from __future__ import annotations

from headgate.formats.decode import decode
from headgate.formats.json_text import KeyReader
from headgate.ingest.records import key_of, partition_of
from headgate.model.content import INLINE_BYTES, Comparison
from headgate.model.outcome import Refused
from headgate.model.policy import TopicPolicy
from headgate.model.route import Digest, Route, Scanned
from headgate.model.topics import TopicState

JSON, NDJSON = b"application/json", b"application/x-ndjson"


class PlainScanner:
    """Made as by `formats.decode.scanner_for`, and reads what is unusual, too.

    compared: a digest of bytes, or what canonical forms are made by; then a document that has none,
    or is long, has no digest.  accepted: how many bodies all of them have read.
    """

    accepted = 0

    def __init__(
        self,
        policy: TopicPolicy,
        lane: TopicState,
        json_max_depth: int,
        compared: Digest | Comparison | None,
    ) -> None:
        self._route = Route(policy, lane, KeyReader.parse(policy.key), json_max_depth)
        self._has_key = bool(policy.key)
        self._compared = compared

    def lines(self, body: bytes, limit: int, /) -> Scanned | None:
        return self._read(body, NDJSON, limit, is_batch=True)

    def elements(self, body: bytes, limit: int, /) -> Scanned | None:
        return self._read(body, JSON, limit, is_batch=True)

    def one(self, body: bytes, /) -> Scanned | None:
        return self._read(body, JSON, 1, is_batch=False)

    def _read(self, body: bytes, content_type: bytes, limit: int, is_batch: bool) -> Scanned | None:
        route = self._route
        try:
            found = decode(body, {b"content-type": content_type}, False, limit)
            values = [event for event in found.events if type(event) is bytes]
            keys = [key for key in (key_of(route, one, None) for one in values) if key is not None]
        except Refused:
            return None
        if any(len(key) > route.key_max_bytes for key in keys):
            return None
        if found.is_batch != is_batch or not 0 < len(values) == len(found.events) <= limit:
            return None
        type(self).accepted += 1
        if not self._has_key:
            return values, None, None, None
        partitions = [partition_of(route, key) for key in keys]
        if self._compared is None:
            return values, keys, partitions, None
        return values, keys, partitions, [self._digest(value) for value in values]

    def _digest(self, value: bytes) -> bytes | None:
        compared = self._compared
        if not isinstance(compared, Comparison):
            return None if compared is None else compared(value, JSON)
        digest, fallback = compared.digest(value, JSON)
        return digest if fallback is None and len(value) <= INLINE_BYTES else None
