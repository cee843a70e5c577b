"""Headers and sizes of records (shared with the Spark jobs)."""

from collections.abc import Sequence
from typing import Final

# Inbound headers with this prefix are dropped, because only the gateway writes them.
RESERVED_PREFIX: Final = "hg-"
PRODUCER: Final = "hg-producer"
RECEIVED_AT: Final = "hg-received-at"
EVENT_ID: Final = "hg-event-id"
SCHEMA: Final = "hg-schema"  # the version of the schema that the value fits
CONTENT_TYPE: Final = "content-type"
REPLAY_ID: Final = "hg-replay-id"  # the replay that copied this record
SPOOLED: Final = "hg-spooled"  # time of spooling (ms): the record is late and may be a duplicate
BURST: Final = "hg-burst"  # the burst that an event belongs to (Headgate-Burst)
# Headers of records in held topics only (`coalescer/windows.py`):
FORCED: Final = "hg-forced"  # publish even if unchanged
WANTED_TIMESTAMP: Final = "hg-timestamp"  # ms: the timestamp of the emitted record
# A done mark: the offset of an event of this key that has been emitted, and the topic's id.
DONE: Final = "hg-done"
BURST_END: Final = "hg-burst-end"  # this burst is complete

# Headers of the records of oversized events (`model/oversize.py`). Values are text: numbers in
# decimal, digests in hexadecimal.
OVERSIZE: Final = (
    "hg-oversize"  # `key-only`: the record announces a change of its key without the value
)
KEY_ONLY: Final = b"key-only"
DATAREF: Final = "ce_dataref"  # CloudEvents' claim check: the URL of the value
VALUE_BYTES: Final = "hg-value-bytes"  # size and SHA-256 of the value that the record refers to
VALUE_SHA256: Final = "hg-value-sha256"
CHUNK_SET: Final = "hg-chunk-set"
CHUNK_INDEX: Final = "hg-chunk-index"  # from 0
CHUNK_COUNT: Final = "hg-chunk-count"
CHUNK_BYTES: Final = "hg-chunk-bytes"  # of the whole value
CHUNK_SHA256: Final = "hg-chunk-sha256"  # of the whole value
SPLIT: Final = "hg-split"  # `element` or `manifest`
SPLIT_SET: Final = "hg-split-set"  # the same on a manifest and its elements
SPLIT_PARENT: Final = "hg-split-parent"  # on an element: the key of its manifest

# Kafka's own worst case: a record batch of one record (61 bytes of batch header), and a record's
# length, attributes, timestamp and offset deltas, key and value lengths and header count as
# varints of at most 5 or 10 bytes (org.apache.kafka.common.record.DefaultRecord). It is not
# MAX_RECORD_OVERHEAD of aiokafka and Kafka, which is 21 and omits the lengths.
BATCH_OVERHEAD: Final = 61
RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
HEADER_OVERHEAD: Final = 10


# A header's value may be null, which is not the same as empty.
Header = tuple[str, bytes | None]


def size_of(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return an upper bound of a record's bytes in an uncompressed batch, without batch header."""
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for header in headers:
        size += bytes_of(header)
    return size


def bytes_of(header: Header) -> int:
    """Return an upper bound of a header's bytes in a record."""
    name, value = header
    length = len(name) if name.isascii() else len(name.encode())
    return HEADER_OVERHEAD + length + (0 if value is None else len(value))
