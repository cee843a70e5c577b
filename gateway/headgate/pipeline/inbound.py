"""What a front hands over to ingest: a request, and how its body is cut into events."""

from collections.abc import Callable
from typing import Final

from headgate.core.event import Decoded
from headgate.core.formats.decode import Headers
from headgate.core.oversize.streamed import Streamed
from headgate.core.topics.route import Route


class Inbound:
    """A request as a front hands it over.

    headers: names in lower case, raw bytes.  body: decompressed; its length was admitted.
    arrived: monotonic seconds when it was there as a whole.
    streamed: its one event, whose value went to the blob store; then the body is empty.
    may_post: tells whether the caller may write to a topic, for suggestions. None: no suggestions.
    """

    __slots__ = (
        "arrived", "body", "headers", "may_post", "producer", "request_id", "streamed", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        producer: str,
        headers: Headers,
        body: bytes,
        request_id: str,
        arrived: float,
        streamed: Streamed | None = None,
        may_post: Callable[[str], bool] | None = None,
    ) -> None:
        self.topic: Final = topic
        self.producer: Final = producer
        self.headers: Final = headers
        self.body: Final = body
        self.request_id: Final = request_id
        self.arrived: Final = arrived
        self.streamed: Final = streamed
        self.may_post: Final = may_post


Decode = Callable[[Inbound, Route], Decoded]
