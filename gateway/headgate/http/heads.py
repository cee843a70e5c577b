"""Plain posts of events: the requests that a connection reads itself, and the heads it remembers.

A client sends nearly the same head with each request. The first one is read strictly: a head with
anything that is not on a short list is not plain, and aiohttp reads it instead. Later heads that
differ only in values without effect on parsing (length, ids, a key) are recognised by their bytes.
tests/unit/http/test_requests_fuzz.py compares all of this with aiohttp's parser.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from headgate.model.cache import BoundedCache
from headgate.native.chosen import framed

Headers = Mapping[bytes, bytes]

# Larger bodies are rare, and their JSON would be weighed or digested on the event loop.
MAX_BYTES: Final = 262_144
HEAD_MAX_BYTES: Final = 4096  # `framed` looks at no longer heads
_START: Final = b"POST /v1/topics/"
_EVENTS: Final = re.compile(r"/v1/topics/([^/?#]+)/events")
_REQUEST_LINE: Final = re.compile(rb"POST (/[A-Za-z0-9._~!$&'()*+,;=:@%/-]+) HTTP/1\.1")
# A token, and text of visible ASCII without spaces around it.
_FIELD: Final = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+): ?((?:[!-~](?:[ -~]*[!-~])?)?)")
_FIELDS_MAX: Final = 64
_LENGTH: Final = b"content-length"
_CONNECTION: Final = b"connection"
_UNUSUAL: Final = frozenset(
    (
        b"content-encoding",
        b"expect",
        b"origin",
        b"proxy-connection",
        b"transfer-encoding",
        b"upgrade",
    )
)
_PATHS_REMEMBERED: Final = 1000  # clients choose them freely
_HEADS_REMEMBERED: Final = 1000
_PATH_MAX: Final = 1024  # characters; a topic name of 249 characters may be encoded as 747


class Framed:
    """Position of a request in received bytes.

    Attributes:
        same: Its head without the values that vary.
        own: Values that vary, except the length; names in lower case.
        start: Start of its body.
        end: End of its body, which may not have arrived completely.
    """

    __slots__ = ("end", "own", "same", "start")

    def __init__(self, same: bytes, own: dict[bytes, bytes], start: int, end: int) -> None:
        self.same: Final = same
        self.own: Final = own
        self.start: Final = start
        self.end: Final = end


def frame(data: bytes) -> Framed | None:
    """Return the request at the start of the data, or None.

    None if its head is incomplete, long or without a length, or if a varying value occurs twice or
    is no plain word.
    """
    request = framed(data)
    if request is None:
        return None
    same, own, start, end = request
    return Framed(same, own, start, end)


def may_become_plain(data: bytes) -> bool:
    """Return whether data without a complete head may be the start of a plain post."""
    if not data.startswith(_START) and not _START.startswith(data):
        return False
    return len(data) < HEAD_MAX_BYTES and b"\r\n\r\n" not in data


class KnownHeads:
    """A cache of topics and headers by request head.

    Args:
        most: Maximum number of heads. A full cache is cleared; 0 remembers none.

    Attributes:
        hits: Number of requests whose head was known.
    """

    __slots__ = ("_is_on", "_known", "hits")

    def __init__(self, most: int = _HEADS_REMEMBERED) -> None:
        self._known = BoundedCache[bytes, tuple[str, dict[bytes, bytes]]](most)
        self._is_on = most > 0
        self.hits = 0

    def learn(self, framed: Framed, topic: str, headers: Headers) -> None:
        """Remember the head of a plain post.

        Args:
            framed: Position of the request.
            topic: Topic of the request.
            headers: All headers; names in lower case.
        """
        if not self._is_on:
            return
        shared = {
            name: value
            for name, value in headers.items()
            if name not in framed.own and name != _LENGTH
        }
        self._known.put(framed.same, (topic, shared))

    def find(self, framed: Framed) -> tuple[str, Headers] | None:
        """Return topic and headers (without the length) of a request with a known head."""
        cached = self._known.get(framed.same)
        if cached is None:
            return None
        self.hits += 1
        if not framed.own:
            return cached
        topic, headers = cached
        return topic, {**headers, **framed.own}


class PlainPosts:
    """Requests that a connection may answer itself.

    Attributes:
        max_bytes: Maximum size of a body, in bytes.
        heads: Cache of their heads.
    """

    __slots__ = ("_topics", "heads", "max_bytes")

    def __init__(self, max_bytes: int, heads: KnownHeads | None = None) -> None:
        self.max_bytes: Final = max_bytes
        self.heads: Final = heads or KnownHeads()
        self._topics = BoundedCache[str, str](_PATHS_REMEMBERED)

    def read_head(self, head: bytes, line_max_bytes: int) -> tuple[str, Headers] | None:
        """Return topic and headers (names in lower case) of a plain post, else None.

        Args:
            head: All bytes before the body.
            line_max_bytes: Maximum size of a line, in bytes.
        """
        lines = head[:-4].split(b"\r\n")
        request = _REQUEST_LINE.fullmatch(lines[0])
        if request is None or len(lines) > _FIELDS_MAX:
            return None
        fields: list[tuple[bytes, bytes]] = []
        names: set[bytes] = set()
        for line in lines[1:]:
            field = _FIELD.fullmatch(line)
            if field is None or len(line) > line_max_bytes:
                return None
            name = field[1].lower()
            if name in names:
                return None
            if name == _CONNECTION and field[2].lower() != b"keep-alive":
                return None
            names.add(name)
            fields.append((name, field[2]))
        if len(lines[0]) > line_max_bytes:
            return None
        return self.read(request[1].decode("ascii"), fields)

    def read(
        self, path: str, raw_headers: Sequence[tuple[bytes, bytes]]
    ) -> tuple[str, Headers] | None:
        """Return topic and headers (names in lower case) of a plain post, else None.

        Args:
            path: The request's target.
            raw_headers: Names and values of the request's headers.
        """
        topic = self._topics.get(path)
        if topic is None:
            topic = self._topic(path)
            if topic is None:
                return None
        headers: dict[bytes, bytes] = {}
        for name, value in raw_headers:
            lower = name.lower()
            if lower in _UNUSUAL:
                return None
            headers[lower] = value
        if int(headers.get(_LENGTH, b"0")) > self.max_bytes or b"host" not in headers:
            return None
        return topic, headers

    def _topic(self, path: str) -> str | None:
        match = _EVENTS.fullmatch(path)
        if match is None:
            return None
        topic = str(match.group(1))
        if "%" in topic:
            topic = unquote(topic)
        if len(path) > _PATH_MAX:
            return topic
        return self._topics.put(path, topic)
