"""Framing of HTTP requests: one request at a time for aiohttp, and checks for invalid requests.

If a proxy and this gateway disagree about the end of a request, one client's bytes may become
another client's request (request smuggling). tests/app/attacks/test_request_smuggling.py compares
these checks with a strict parser.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import (
    BadHttpMessage,
    HttpProcessingError,
    InvalidURLError,
    LineTooLong,
)

from headgate.model.outcome import Failure, Reason

_TOO_MANY = "Too many headers received"  # aiohttp has no exception class for this error
_PLAIN = re.compile(r"[A-Z](?:[A-Za-z0-9 ,/`-]|(?<=[a-z])'(?=[a-z])){0,100}")


def ambiguity(request: web.BaseRequest | RawRequestMessage) -> str | None:
    """Return the reason for refusing an ambiguous request, for its client; else None."""
    version, headers = request.version, request.headers
    if version not in (HttpVersion10, HttpVersion11):  # HTTP/0.9 has a request line only
        return "The version is neither HTTP 1.1 nor 1.0"
    encodings = headers.getall("Transfer-Encoding", ())
    if encodings and (len(encodings) > 1 or encodings[0].strip().lower() != "chunked"):
        return "Transfer-Encoding may be `chunked` alone"
    if version == HttpVersion10:
        return "Transfer-Encoding is not in HTTP/1.0" if encodings else None
    if len(headers.getall("Host", ())) != 1:
        return "Host is missing or there twice"
    return None


async def unambiguous(
    handle: Callable[[Any], Awaitable[web.StreamResponse]], request: web.BaseRequest
) -> web.StreamResponse:
    """Handle a request, unless another server could read its bytes differently."""
    why = ambiguity(request)
    if why is not None:
        raise BadHttpMessage(why)
    return await handle(request)


def unreadable(error: HttpProcessingError, header_max_bytes: int) -> Failure:
    """Return the failure for a request that the parser could not read.

    Clients see only the first line of the parser's message, and only if it quotes nothing.

    Args:
        error: Error of the parser.
        header_max_bytes: Limit on the size of headers, in bytes.
    """
    if isinstance(error, LineTooLong):
        limit = f"http.header_max_bytes = {header_max_bytes}"
        detail = f"the request line or a header field is longer than {limit}"
        return Failure(Reason.HEADERS_TOO_LARGE, detail)
    if error.message == _TOO_MANY:
        return Failure(Reason.HEADERS_TOO_LARGE, "the request has too many headers")
    said = error.message.partition("\n")[0].rstrip(":. ")
    if isinstance(error, InvalidURLError):
        said = "Invalid URL"
    why = f": {said}" if _PLAIN.fullmatch(said) else ""
    return Failure(Reason.MALFORMED, f"this is no request of HTTP/1.1{why}")


# ---- pacing: aiohttp gets one request at a time

_HEAD_END: Final = b"\r\n\r\n"
_START: Final = re.compile(rb"[A-Z]+ [!-~]+ HTTP/1\.[01]\r\n")
_LENGTH: Final = re.compile(rb"\r\n(?i:content-length):[ \t]*([0-9]{1,15})[ \t]*(?=\r\n)")
_ENCODING: Final = re.compile(rb"\r\n(?i:transfer-encoding):[ \t]*(?i:chunked)[ \t]*(?=\r\n)")
_UNSURE: Final = re.compile(rb"\r\n(?i:content-length|transfer-encoding|upgrade)")
_TOKEN = rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_EXTENSION = rb";(?:%b|(?:%b)?=(?:%b|%b)?)" % (_TOKEN, _TOKEN, _TOKEN, _QUOTED)
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,20})(?:%b)*\r\n" % _EXTENSION)
_CHUNK_START: Final = re.compile(rb"[0-9A-Fa-f]{1,20}(?:;[^\r\n]*)?\r?")
_TRAILER: Final = re.compile(
    rb"(?!(?i:content-length|transfer-encoding):)%b:[^\x00-\x08\x0a-\x1f\x7f]*\r\n" % _TOKEN
)
_HEAD_MAX_BYTES: Final = 65_536
_LINE_MAX_BYTES: Final = 16_384  # of a chunk's size with its extension, or a trailer
_TRAILER_MAX_BYTES: Final = 1024  # less than any limit of aiohttp
_TRAILERS_MAX: Final = 32


class Pacing:
    """Cuts a connection's bytes into requests, so that aiohttp gets the next one in its turn.

    aiohttp's parser decides; this only chooses when it gets which bytes. If the end of a request
    is not known, all bytes pass as they arrive.

    Attributes:
        is_sure: Whether the end of the request is known.
        is_whole: Whether all bytes of the request have passed, as far as known.
        is_broken: Whether the chunks of the request are invalid.
    """

    def __init__(self) -> None:
        self.is_sure = self.is_whole = True
        self.is_broken = False
        self._is_head = self._has_chunks = self._is_chunk_end = self._is_trailer = False
        self._text = b""  # the start of a head, of a chunk's size, or of a trailer
        self._owed = self._trailers = 0  # bytes of the body or the chunk; number of trailers

    def begin(self, data: bytes) -> int:
        """Return the number of bytes that belong to the request at the start of the data."""
        self.is_sure = self._is_head = True
        self.is_whole = self.is_broken = False
        self._has_chunks = self._is_chunk_end = self._is_trailer = False
        self._text, self._owed, self._trailers = b"", 0, 0
        return self.go_on(data)

    def go_on(self, data: bytes) -> int:
        """Return the number of bytes that belong to the request that has begun."""
        if not self.is_sure:
            return len(data)
        start = self._end_of_head(data) if self._is_head else 0
        if not self.is_sure or start == len(data):
            return len(data)
        if self._has_chunks:
            return start + self._chunked(data[start:])
        size = min(self._owed, len(data) - start)
        self._owed -= size
        self.is_whole = not self._owed
        return start + size

    def _end_of_head(self, data: bytes) -> int:
        """Read a part of the head. Return the position behind what was read."""
        before = len(self._text)
        text = self._text + data
        end = text.find(_HEAD_END, max(0, before - len(_HEAD_END)))
        if end < 0:
            self._text = text
            self.is_sure = len(text) <= _HEAD_MAX_BYTES
            return len(data)
        head = text[: end + 2]
        self._text, self._is_head = b"", False
        lengths, encodings = _LENGTH.findall(head), _ENCODING.findall(head)
        count = len(lengths) + len(encodings)
        is_clear = count <= 1 and count == len(_UNSURE.findall(head))
        self.is_sure = is_clear and _START.match(head) is not None
        self._has_chunks = bool(encodings)
        self._owed = int(lengths[0]) if lengths else 0
        self.is_whole = self.is_sure and not self._has_chunks and not self._owed
        return end + len(_HEAD_END) - before

    def _chunked(self, data: bytes) -> int:
        at = 0
        while at < len(data) and not self.is_whole:
            if self._owed:
                size = min(self._owed, len(data) - at)
                self._owed -= size
                at += size
                self._is_chunk_end = not self._owed
                continue
            at = self._end_of_line(data, at)
            self.is_sure = self.is_sure and not self.is_broken
            if not self.is_sure:
                return len(data)
        return at

    def _end_of_line(self, data: bytes, at: int) -> int:
        """Read a line of a chunked body. Return the position behind what was read."""
        before = len(self._text)
        line = self._text + data[at : at + _LINE_MAX_BYTES]
        end = line.find(b"\n") + 1
        if not end:
            self._text = line
            self.is_sure = len(line) < _LINE_MAX_BYTES
            self.is_broken = not self._may_begin(line)
            return at + len(line) - before
        self._text, line = b"", line[:end]
        if self._is_chunk_end:
            self._is_chunk_end = False
            self.is_broken = line != b"\r\n"
        elif self._is_trailer:
            self.is_whole = line == b"\r\n"
            self._trailers += 1
            is_valid = self._trailers <= _TRAILERS_MAX and _TRAILER.fullmatch(line) is not None
            self.is_broken = not self.is_whole and not is_valid
        else:
            chunk = _CHUNK.fullmatch(line)
            self.is_broken = chunk is None
            self._owed = int(chunk[1], 16) if chunk is not None else 0
            self._is_trailer = not self._owed
        return at + end - before

    def _may_begin(self, line: bytes) -> bool:
        """Return whether the start of a line may become a valid one."""
        if self._is_chunk_end:
            return line == b"\r"
        if self._is_trailer:
            return len(line) <= _TRAILER_MAX_BYTES
        return _CHUNK_START.fullmatch(line) is not None
