"""Recovery of requests that aiohttp's parser has read but does not return.

If the last of several requests in one piece of data is invalid, aiohttp 3.14's parser raises and
does not return the valid ones before it. Their clients would get `malformed` for valid
events. The parser is written in C and has no API for these requests, but Python's garbage
collector can list them. This code runs only for invalid data.

tests/unit/http/test_connection.py fails if a newer aiohttp keeps the requests elsewhere.
"""

import gc

from aiohttp import StreamReader
from aiohttp.hdrs import TRANSFER_ENCODING
from aiohttp.http import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

Parsed = tuple[RawRequestMessage, StreamReader]


def parsed_before(parser: object) -> list[Parsed]:
    """Take the requests that the parser had read when it raised. A second call returns none."""
    for held in gc.get_referents(parser):
        if isinstance(held, list) and held and _is_parsed(held[0]):
            taken = [request for request in held if _is_whole(*request)]
            held.clear()
            return taken
    return []


def _is_whole(message: RawRequestMessage, payload: StreamReader) -> bool:
    """Return whether a request was read to its end; the invalid one was not.

    A request without a body shows no end; it is complete unless it has a Transfer-Encoding.
    """
    if payload is EMPTY_PAYLOAD:
        return TRANSFER_ENCODING not in message.headers
    return payload.is_eof()


def _is_parsed(one: object) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], RawRequestMessage)
