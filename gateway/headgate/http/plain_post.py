"""Selection of requests for the fast path: a POST of events without unusual headers."""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from headgate.http.known_heads import KnownHeads

# Larger bodies are rare, and their JSON would be weighed or digested on the event loop.
MAX_BYTES: Final = 262_144
_EVENTS: Final = re.compile(r"/v1/topics/([^/?#]+)/events")
_UNUSUAL: Final = frozenset(
    (
        b"content-encoding",
        b"expect",
        b"origin",
        b"transfer-encoding",
        b"upgrade",
    )
)
_PATHS_REMEMBERED: Final = 1000  # clients choose them freely
_PATH_MAX: Final = 1024  # characters; a topic name of 249 characters may be encoded as 747


class PlainPosts:
    """Requests that may take the fast path.

    Attributes:
        max_bytes: Maximum size of a body, in bytes.
        heads: Cache of their heads.
    """

    __slots__ = ("_topics", "heads", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes: Final = max_bytes
        self.heads: Final = KnownHeads()
        self._topics: dict[str, str] = {}

    def read(
        self, path: str, raw_headers: Sequence[tuple[bytes, bytes]]
    ) -> tuple[str, Mapping[bytes, bytes]] | None:
        """Return topic and headers (names in lower case) of such a request, else None."""
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
        if int(headers.get(b"content-length", b"0")) > self.max_bytes or b"host" not in headers:
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
        if len(self._topics) >= _PATHS_REMEMBERED:
            self._topics.clear()
        self._topics[path] = topic
        return topic
