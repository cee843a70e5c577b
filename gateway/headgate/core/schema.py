"""JSON Schema 2020-12: which events a topic takes.

Nothing is ever fetched: a `$ref` must stay inside the schema's own file. `format` is an annotation,
as that version of JSON Schema has it.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import orjson

from headgate.core.outcome import Failure, Reason

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_MAX_SHOWN = 20  # violations of one event
_MAX_DETAIL = 200  # characters: a violation quotes the value, which may be the whole event
# The engine finds all violations or none, 16 us each, and a text may have one every two bytes.
INLINE_BYTES = 1024  # so that they are found in less than 10 ms
_BACKTRACKS = 100_000  # of a pattern with look-around; others take linear time


class BadSchemaError(ValueError):
    """The text is no schema that can be used; the error's text says why."""


class Schema:
    """A compiled schema. text: the file's bytes. Raises BadSchemaError.

    It goes to another process as its text.
    """

    __slots__ = ("__weakref__", "_validator", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._validator = _compile(text)

    def __reduce__(self) -> tuple[Callable[[bytes], "Schema"], tuple[bytes]]:
        return received_schema, (self.text,)

    @property
    def version(self) -> bytes:
        """The record header `hg-schema`: the first 16 hex digits of the file's SHA-256."""
        return sha256(self.text).hexdigest()[:16].encode()

    def fits(self, document: bytes) -> bool:
        """Whether the schema takes this JSON text. Cheap: it ends with the first violation."""
        try:
            return self._validator.is_valid(_parsed(document))
        except (ValueError, RecursionError):
            return False

    def failure(self, document: bytes) -> Failure:
        """What is wrong with a JSON text that does not fit."""
        try:
            errors = self._validator.iter_errors(_parsed(document))
            violations = [_shown(error) for error in islice(errors, _MAX_SHOWN)]
        except (ValueError, RecursionError):
            return violation("the event cannot be validated: too deep, or a number too long")
        if not violations:
            return violation("the event cannot be validated")
        first = violations[0]
        detail = f"at {first['path'] or 'the whole event'}: {first['detail']}"
        return violation(detail, violations)

    def check(self, document: bytes) -> Failure | None:
        """Both in one: None when it fits."""
        return None if self.fits(document) else self.failure(document)


def violation(detail: str, violations: Sequence[dict[str, str]] = ()) -> Failure:
    """The failure of an event that its topic's schema does not take."""
    figures = {"violations": list(violations)}
    return Failure(Reason.SCHEMA_VIOLATION, detail, figures)


def schema_of(text: bytes) -> Schema:
    """A schema, compiled once for as long as it is in use: a configuration's policies hold theirs,
    and the next configuration takes over what it has in common. Raises BadSchemaError."""
    schema = _in_use.get(text)
    if schema is None:
        schema = _in_use[text] = Schema(text)
    return schema


_in_use: WeakValueDictionary[bytes, Schema] = WeakValueDictionary()


@cache  # `examination.forget_received` empties it
def received_schema(text: bytes) -> Schema:
    """One that came from another process, which has the configuration and holds it."""
    return Schema(text)


def _compile(text: bytes) -> "Draft202012Validator":
    # 8 MB of memory, for those only who have a schema
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions, ValidationError

    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadSchemaError(f"not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise BadSchemaError("neither an object nor a boolean")
    draft = schema.get("$schema", _DRAFT) if isinstance(schema, dict) else _DRAFT
    if not isinstance(draft, str) or draft.rstrip("#") != _DRAFT:
        raise BadSchemaError(f'its "$schema" is {_short(str(draft))}, not {_DRAFT}')
    options = FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    try:
        return Draft202012Validator(schema, offline=True, pattern_options=options)
    except ValidationError as error:
        at = _pointer(error.instance_path)
        raise BadSchemaError(f"{f'at {at}: ' if at else ''}{_short(error.message)}") from None
    except ValueError as error:
        raise BadSchemaError(_short(str(error))) from None


def _parsed(document: bytes) -> object:
    """The value. Numbers beyond a double, and lone surrogates, only the standard library takes."""
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        return json.loads(document)


def _shown(error: "ValidationError") -> dict[str, str]:
    return {
        "path": _pointer(error.instance_path),
        "schema_path": _pointer(error.schema_path),
        "detail": _short(error.message),
    }


def _short(text: str) -> str:
    text = text.encode(errors="replace").decode()  # a lone surrogate cannot be answered
    return text if len(text) <= _MAX_DETAIL else f"{text[:_MAX_DETAIL]}..."


def _pointer(path: Sequence[str | int]) -> str:
    """A JSON Pointer (RFC 6901); empty for the whole."""
    tokens = [str(token).replace("~", "~0").replace("/", "~1") for token in path]
    return _short("".join("/" + token for token in tokens))
