"""What aiohttp's parser has read and does not hand out.

Given several requests in one piece of data of which the last is nonsense, aiohttp 3.14's parser
raises and keeps the good ones before it to itself: their clients would be told `malformed` for
events that are good, and that were never looked at. The parser is written in C and has no way to
ask for them; Python's garbage collector knows them all the same. Only what is broken comes here.

tests/unit/edge/test_connection.py shows whether a newer aiohttp keeps them elsewhere.
"""

import gc

from aiohttp import StreamReader
from aiohttp.hdrs import TRANSFER_ENCODING
from aiohttp.http import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

Parsed = tuple[RawRequestMessage, StreamReader]


def parsed_before(parser: object) -> list[Parsed]:
    """Take the requests that the parser had read when it raised. Asked again it has none."""
    for held in gc.get_referents(parser):
        if isinstance(held, list) and held and _is_parsed(held[0]):
            taken = [one for one in held if _is_whole(*one)]
            held.clear()
            return taken
    return []


def _is_whole(message: RawRequestMessage, payload: StreamReader) -> bool:
    """Whether it has been read to its end: else it is the bad one itself.

    One without a body has no end that is seen; what it may be refused for is its encoding.
    """
    if payload is EMPTY_PAYLOAD:
        return TRANSFER_ENCODING not in message.headers
    return payload.is_eof()


def _is_parsed(one: object) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], RawRequestMessage)
