"""The bodies of management requests: JSON, and the console's forms.

They are read with a cap, and with the data port's deadline."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

from headgate.core.admission import Admission
from headgate.core.http.media_type import is_form, is_json
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.limits import management_body
from headgate.core.refusal import Refused, TooMuch, brief, malformed
from headgate.edge.body import read_body

_MAX_BYTES = 1_048_576
_MAX_TOGETHER = 64 * _MAX_BYTES  # of all that are being read; these pages are not the data port
_MAX_FIELDS = 100  # of a form; the largest one has 16

Form = Mapping[str, str]


class Bodies:
    """timeout_s: how long a body may take to arrive.

    Pages ask who it is before they read: a stranger's body is none of their business.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._budget = Admission(_MAX_TOGETHER, 0).of("")

    async def json(self, request: web.Request) -> Any:
        """The document. Raises Refused, also for what could be kept and never be shown again."""
        given = request.headers.get("Content-Type", "")
        if not is_json(given):  # a browser sends some other types for any page without asking us
            detail = f"send it with Content-Type: application/json, not {brief(given or 'none')}"
            raise Refused(malformed(detail))
        return _document(await self._read(request))

    async def form(self, request: web.Request) -> Form:
        """The fields of a form, as browsers send it; of those of one name the first. Raises
        Refused."""
        given = request.headers.get("Content-Type", "")
        if request.can_read_body and not is_form(given):
            detail = (
                "a form is sent with Content-Type: application/x-www-form-urlencoded, not "
                f"{brief(given or 'none')}"
            )
            raise Refused(Failure(Reason.UNSUPPORTED_ENCODING, detail))
        return _fields(await self._read(request))

    async def _read(self, request: web.Request) -> bytes:
        try:
            encoding = request.headers.get("Content-Encoding", "").encode("latin-1", "replace")
            raw = await read_body(request, encoding, _MAX_BYTES, self._timeout_s, self._budget)
        except TooMuch as much:
            raise Refused(management_body(_MAX_BYTES)) from much
        self._budget.give(len(raw), 0)  # what it becomes is made in this turn of the loop
        return raw


def _fields(raw: bytes) -> Form:
    try:
        pairs = parse_qsl(
            raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError as error:
        raise Refused(malformed("the form has too many fields, or is no UTF-8")) from error
    return dict(reversed(pairs))


def _document(raw: bytes) -> Any:
    try:
        document = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(malformed(f"the body is not JSON: {_what_is_wrong(error)}")) from error
    try:
        orjson.dumps([{"": document}])  # as deep as it is in a list
    except TypeError as error:
        detail = "the body cannot be kept: it nests too deep, or has a number beyond 64 bits"
        raise Refused(malformed(detail)) from error
    return document


def _what_is_wrong(error: Exception) -> str:
    """The library's words speak of its own insides, but for a place in the text."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    if isinstance(error, RecursionError):
        return "it nests too deep"
    return "a number that is too long, NaN or Infinity"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
