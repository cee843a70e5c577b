"""Requests in Kafka's flexible encoding (KIP-482) that aiokafka has no class for, or an older one.

Decoding by hand is several times faster than aiokafka's schemas, and all groups of a cluster are
some ten thousand partitions.
"""

import struct
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any, Generic, NamedTuple, Self, TypeVar

from aiokafka.errors import IncompatibleBrokerVersion

from headgate.kafka.wire import Reader

NO_TAGS = b"\0"
NULL = b"\0"  # of a compact text or array

_Answer = TypeVar("_Answer")


def varint(number: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def text(value: str) -> bytes:
    """A compact string."""
    raw = value.encode()
    return varint(len(raw) + 1) + raw


def array(items: Iterable[bytes]) -> bytes:
    """A compact array of what is encoded already."""
    every = list(items)
    return varint(len(every) + 1) + b"".join(every)


class _Header(NamedTuple):
    correlation_id: int


class _Encoded(NamedTuple):
    data: bytes

    def encode(self) -> bytes:
        return self.data


class _Answers(NamedTuple):
    """What aiokafka asks to decode an answer."""

    read: Callable[[Reader], Any]

    def decode(self, data: BytesIO) -> Any:
        return self.read(Reader(data.read()))


class FlexibleRequest(Generic[_Answer]):
    """One request, by what AIOKafkaConnection calls on it.

    versions: of the API, lowest and highest; `body` and `read` get the one that is chosen.
    """

    def __init__(
        self,
        api_key: int,
        versions: tuple[int, int],
        body: Callable[[int], bytes],
        read: Callable[[Reader, int], _Answer],
    ) -> None:
        self.API_KEY = api_key
        self.API_VERSION = versions[1]
        self._versions = versions
        self._body = body
        self._read = read

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Self:
        """Choose the version. Raises IncompatibleBrokerVersion."""
        low, high = versions.get(self.API_KEY, (0, -1))
        lowest, highest = max(low, self._versions[0]), min(high, self._versions[1])
        if lowest > highest:
            raise IncompatibleBrokerVersion(f"the broker does not take request {self.API_KEY}")
        self.API_VERSION = highest
        return self

    @property
    def RESPONSE_TYPE(self) -> _Answers:
        version = self.API_VERSION
        return _Answers(lambda reader: self._read(reader, version))

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        """RequestHeader.json version 2."""
        name = client_id.encode()
        numbers = (self.API_KEY, self.API_VERSION, correlation_id, len(name))
        return _Encoded(struct.pack(">hhih", *numbers) + name + NO_TAGS)

    def encode(self) -> bytes:
        """The body."""
        return self._body(self.API_VERSION) + NO_TAGS

    def parse_response_header(self, data: BytesIO) -> _Header:
        """ResponseHeader.json version 1; it has no tags in any known version."""
        (correlation_id,) = struct.unpack(">i", data.read(4))
        data.read(1)
        return _Header(correlation_id)
