"""Kafka's record batches, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch).

`chosen.Records` encodes records; `compressed` and `chosen.seal` complete the batch for a broker.
The bytes are the same as aiokafka's.
"""

import sys

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from headgate.native.chosen import with_body
from headgate.native.plain_records import HEADER_BYTES

_ZSTD = 4
_ENCODERS = ("", "gzip_encode", "snappy_encode", "lz4_encode", "zstd_encode")


def compressed(batch: bytearray, codec: int) -> bytearray:
    """Compress the records of a batch, even if they become larger.

    It uses the functions of aiokafka's builder (`compression.keep_zstd`).

    Args:
        batch: Batch with uncompressed records.
        codec: Number of the codec; 0 for none.
    """
    if codec == 0:
        return batch
    encode = getattr(sys.modules[DefaultRecordBatchBuilder.__module__], _ENCODERS[codec])
    records = memoryview(batch)[HEADER_BYTES:]
    # lz4's encoder takes only bytes; for zstd, the common codec, no copy is needed.
    return with_body(batch, codec, encode(records if codec == _ZSTD else bytes(records)))
