"""Kafka's record batches, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch).

`chosen.Records` encodes records, `compressed` and `chosen.seal` make of them what goes to a broker:
the bytes are aiokafka's.
"""

import sys

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from headgate.native.chosen import with_body
from headgate.native.plain_records import HEADER_BYTES

_ZSTD = 4
_ENCODERS = ("", "gzip_encode", "snappy_encode", "lz4_encode", "zstd_encode")


def compressed(batch: bytearray, codec: int) -> bytearray:
    """The same batch with its records compressed, however large they become; 0 = as they are.

    With aiokafka's own functions, and as its builder finds them (`compression.keep_zstd`).
    """
    if codec == 0:
        return batch
    encode = getattr(sys.modules[DefaultRecordBatchBuilder.__module__], _ENCODERS[codec])
    records = memoryview(batch)[HEADER_BYTES:]
    # lz4's takes nothing but bytes; the one that matters need not have them copied.
    return with_body(batch, codec, encode(records if codec == _ZSTD else bytes(records)))
