"""Which records of a range a replay takes.

All conditions must hold; of the values of one condition any. The same code runs in the API (which
refuses what makes no sense) and in the runner (which decides for each record).
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.core.keys import BadPointer, parse_pointer
from headgate.core.record import PRODUCER
from headgate.core.refusal import brief
from headgate.core.replays.fields import FieldError, known, text

_MAX_VALUES = 10_000
_LONGEST = 10_000
_ABSENT = object()

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """keys: of which any.  headers: name -> values of which any, the producer's among them.

    equals: (JSON Pointer's tokens, JSON text in canonical form); a value that is no JSON has none.
    """

    keys: frozenset[bytes] = frozenset()
    headers: tuple[tuple[str, frozenset[bytes]], ...] = ()
    equals: tuple[tuple[tuple[str, ...], str | None], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every record is taken."""
        return not (self.keys or self.headers or self.equals)

    def takes(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Whether this record is wanted. Of a header that comes several times any may match."""
        if self.keys and key not in self.keys:
            return False
        for name, wanted in self.headers:
            if not any(found in wanted for header, found in headers if header == name):
                return False
        return not self.equals or self._equal(value)

    def _equal(self, value: bytes | None) -> bool:
        if value is None:
            return False
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return False
        return all(_canonical(_at(document, path)) == wanted for path, wanted in self.equals)


def read_filter(raw: object) -> RecordFilter:
    """The filter that a request's JSON means. Raises FieldError."""
    if raw is None:
        return RecordFilter()
    names = {"keys", "keys_base64", "producers", "headers", "equals"}
    given = known("filter", raw, names)
    keys = {one.encode() for one in _texts("filter.keys", given.get("keys", ()))}
    keys |= {_decoded(one) for one in _texts("filter.keys_base64", given.get("keys_base64", ()))}
    headers = _headers(given.get("headers", {}))
    producers = _texts("filter.producers", given.get("producers", ()))
    if producers:
        headers.append((PRODUCER, frozenset(producer.encode() for producer in producers)))
    return RecordFilter(frozenset(keys), tuple(headers), _equals(given.get("equals", {})))


def _texts(field: str, raw: object) -> Sequence[str]:
    is_list = isinstance(raw, Sequence) and not isinstance(raw, str | bytes)
    if not is_list or len(raw) > _MAX_VALUES:  # type: ignore[arg-type]
        raise FieldError(field, f"a list of at most {_MAX_VALUES} texts")
    return [text(field, one, limit=_LONGEST) for one in raw]  # type: ignore[attr-defined]


def _decoded(one: str) -> bytes:
    try:
        return base64.b64decode(one, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FieldError("filter.keys_base64", f"{brief(one)} is not base64") from error


def _headers(raw: object) -> list[tuple[str, frozenset[bytes]]]:
    if not isinstance(raw, Mapping):
        raise FieldError("filter.headers", 'values by name, such as {"content-type": "text/plain"}')
    found = []
    for name, given in raw.items():
        values = _texts(f"filter.headers.{name}", [given] if isinstance(given, str) else given)
        found.append((str(name), frozenset(value.encode() for value in values)))
    return found


def _equals(raw: object) -> tuple[tuple[tuple[str, ...], str | None], ...]:
    if not isinstance(raw, Mapping) or len(raw) > _MAX_VALUES:
        raise FieldError("filter.equals", 'values by JSON Pointer, such as {"/status": "paid"}')
    found = []
    for pointer, value in raw.items():
        try:
            found.append((parse_pointer(str(pointer)), _canonical(value)))
        except BadPointer as error:  # it quotes the pointer, which may be long
            detail = f"{brief(str(pointer))} is no JSON Pointer, such as /status"
            raise FieldError("filter.equals", detail) from error
    return tuple(found)


def _canonical(value: object) -> str | None:
    """Text that is equal for equal JSON: 1 and 1.0 are the same number, 1 and true are not."""
    if value is _ABSENT:
        return None
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _at(document: object, path: tuple[str, ...]) -> object:
    for token in path:
        if isinstance(document, dict):
            document = document.get(token, _ABSENT)
        elif isinstance(document, list) and token.isascii() and token.isdigit():
            at = int(token) if len(token) < 10 else len(document)
            is_there = at < len(document) and str(at) == token
            document = document[at] if is_there else _ABSENT
        else:
            return _ABSENT
    return document
