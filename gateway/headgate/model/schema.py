# Not compiled: schemas need weak references.
"""Validation of events against JSON Schema 2020-12.

Nothing is ever fetched: a `$ref` must stay inside the schema's own file. `format` is an
annotation, as in that version of JSON Schema.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import orjson

from headgate.model.outcome import Failure, Reason

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError


_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_MAX_SHOWN = 20  # violations of one event
_MAX_DETAIL = 200  # characters: a violation quotes the value, which may be the whole event
# The engine finds all violations or none, 16 us each, and a text may have one every two bytes.
INLINE_BYTES = 1024  # a text of this size takes less than 10 ms
_BACKTRACKS = 100_000  # limit for patterns with look-around; others take linear time


class BadSchemaError(ValueError):
    """A text that is not a usable schema; the message has the reason."""


class Schema:
    """A compiled schema. Another process receives it as its text.

    Args:
        text: The bytes of the file.

    Raises:
        BadSchemaError: The text is not a usable schema.
    """

    __slots__ = ("__weakref__", "_validator", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._validator = _compile(text)

    def __reduce__(self) -> tuple[Callable[[bytes], "Schema"], tuple[bytes]]:
        return received_schema, (self.text,)

    @property
    def version(self) -> bytes:
        """Return the record header `hg-schema`: the first 16 hex digits of the file's SHA-256."""
        return sha256(self.text).hexdigest()[:16].encode()

    def fits(self, document: bytes) -> bool:
        """Return whether a JSON text is valid. Cheap: it stops at the first violation."""
        try:
            return self._validator.is_valid(_parsed(document))
        except (ValueError, RecursionError):
            return False

    def failure(self, document: bytes) -> Failure:
        """Return the failure of an invalid JSON text, with its violations."""
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
        """Return the failure of a JSON text; None if it is valid."""
        return None if self.fits(document) else self.failure(document)


def violation(detail: str, violations: Sequence[dict[str, str]] = ()) -> Failure:
    """Return the failure of an event that violates its topic's schema."""
    figures = {"violations": list(violations)}
    return Failure(Reason.SCHEMA_VIOLATION, detail, figures)


def schema_of(text: bytes) -> Schema:
    """Return the compiled schema of a text; schemas in use are compiled only once.

    The policies of a configuration hold their schemas, and the next configuration shares those that
    have not changed.

    Raises:
        BadSchemaError: The text is not a usable schema.
    """
    schema = _in_use.get(text)
    if schema is None:
        schema = _in_use[text] = Schema(text)
    return schema


_in_use: WeakValueDictionary[bytes, Schema] = WeakValueDictionary()


@cache  # `content.forget_received` empties it
def received_schema(text: bytes) -> Schema:
    """Return a schema that another process, which has the configuration, sent."""
    return Schema(text)


def _compile(text: bytes) -> "Draft202012Validator":
    # 8 MB of memory, only if there is a schema
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
    """Parse a JSON text; the standard library takes huge numbers and lone surrogates, too."""
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
    text = text.encode(errors="replace").decode()  # a response cannot contain a lone surrogate
    return text if len(text) <= _MAX_DETAIL else f"{text[:_MAX_DETAIL]}..."


def _pointer(path: Sequence[str | int]) -> str:
    """Return a JSON Pointer (RFC 6901); empty for the whole document."""
    tokens = [str(token).replace("~", "~0").replace("/", "~1") for token in path]
    return _short("".join("/" + token for token in tokens))
