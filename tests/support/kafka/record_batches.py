"""An independent decoder of Kafka's record batches, magic 2, as Kafka's documentation has them.

It shares nothing with the code under test, nor with aiokafka, which only carries what is appended.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from typing import NamedTuple

import cramjam
from aiokafka import AIOKafkaProducer

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODECS = {
    0: bytes,
    1: gzip.decompress,
    3: lambda body: bytes(cramjam.lz4.decompress(body)),
    4: lambda body: bytes(cramjam.zstd.decompress(body)),
}
_CONTROL = 32


class Decoded(NamedTuple):
    """A record. names are bytes, as in the log."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


class DecodedBatch(NamedTuple):
    codec: int
    is_transactional: bool
    max_timestamp_ms: int
    producer: tuple[int, int, int]
    records: list[Decoded]


def decode(batch: bytes) -> DecodedBatch:
    """Decode one, and check all that a broker checks."""
    (
        _, length, _, magic, checksum, attributes, last, first_ms, max_ms, producer_id, epoch,
        sequence, count,
    ) = _HEADER.unpack_from(batch)  # fmt: skip
    assert (magic, length, last) == (2, len(batch) - 12, count - 1)
    assert checksum == crc32c(batch[21:])
    body = _Reader(_CODECS[attributes & 7](batch[_HEADER.size :]))
    records = []
    for number in range(count):
        end = body.varint() + body.at
        body.at += 1  # attributes
        timestamp_ms = first_ms + body.varint()
        assert body.varint() == number
        key, value = body.bytes_or_none(), body.bytes_or_none()
        headers = [
            (body.bytes_or_none() or b"", body.bytes_or_none()) for _ in range(body.varint())
        ]
        assert body.at == end
        records.append(Decoded(timestamp_ms, key, value, headers))
    assert body.at == len(body.data)
    return DecodedBatch(
        attributes & 7, bool(attributes & 16), max_ms, (producer_id, epoch, sequence), records
    )


def encoded(
    timestamp_ms: int, value: bytes, headers: list[tuple[bytes, bytes]], *, key: bytes = b"k"
) -> bytes:
    """One record as a batch, uncompressed, without a producer: a foreign client's."""
    body = b"\0" + varint(0) + varint(0) + varint(len(key)) + key + varint(len(value)) + value
    body += varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name + varint(len(content)) + content
    record = varint(len(body)) + body
    behind = struct.pack(
        ">hiqqqhii", 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1
    ) + record  # fmt: skip
    return struct.pack(">qiibI", 0, len(behind) + 9, -1, 2, crc32c(behind)) + behind


def visible(segment: bytes) -> list[Decoded]:
    """The records of a log's file, without markers. What was aborted counts, too."""
    found, at = [], 0
    while at + _HEADER.size <= len(segment):
        end = at + 12 + int.from_bytes(segment[at + 8 : at + 12])
        batch = segment[at:end]
        if not batch[22] & _CONTROL:
            found += decode(batch).records
        at = end
    return found


async def append(bootstrap: str, topic: str, batches: Sequence[bytes]) -> None:
    """Write batches to partition 0 as they are, one after the other."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1)
    await producer.start()
    try:
        for batch in batches:
            await (await producer.send_batch(_AsItIs(batch), topic, partition=0))
    finally:
        await producer.stop()


class _AsItIs:
    """What aiokafka asks of a batch."""

    def __init__(self, batch: bytes) -> None:
        self._batch = batch

    def close(self) -> None:
        """It is whole."""

    def closed(self) -> bool:
        return True

    def record_count(self) -> int:
        return 1

    def size(self) -> int:
        return len(self._batch)

    def _set_producer_state(self, *_: int) -> None:
        """It has none."""

    def _build(self) -> bytes:
        return self._batch


def varint(number: int) -> bytes:
    """Zigzag, then seven bits a byte."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        raw = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)

    def bytes_or_none(self) -> bytes | None:
        length = self.varint()
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at]


def _table() -> list[int]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        found.append(byte)
    return found


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Castagnoli's."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = checksum >> 8 ^ _TABLE[(checksum ^ byte) & 0xFF]
    return checksum ^ 0xFFFFFFFF
