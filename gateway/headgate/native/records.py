"""Kafka's record batches, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch).

`Records` encodes records, `compressed` and `seal` make of them what goes to a broker: the bytes are
aiokafka's. They are C where the gateway is compiled.
"""

import sys

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from headgate.native.plain_records import HEADER_BYTES

try:
    from headgate.native._records import Records, with_body
except ModuleNotFoundError:
    from headgate.native.plain_records import Records, with_body  # type: ignore[assignment]
try:
    from headgate.native._records import seal  # where the processor has an instruction for it
except ImportError:
    from headgate.native.plain_records import seal

__all__ = ["Records", "compressed", "seal", "with_body"]

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
