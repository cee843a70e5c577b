"""One zstd compressor for all batches of a process.

aiokafka makes a new one for each batch (through cramjam), and its setting up costs 17 us: as much
as compressing five events of 648 bytes. Kept, five such records cost 12 us instead of 30, a batch
of 130 costs 170 instead of 200 (loadtest/README.md). The frames are the same, at the same level.
"""

import sys

from aiokafka.record import default_records

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3  # what cramjam and Kafka's own producer take when none is given


def keep_zstd() -> None:
    """Teach aiokafka's record builder to compress with the compressor that is kept.

    The compiled builder looks the function up in its own module at each batch.
    """
    compressor = zstd.ZstdCompressor(level=_LEVEL)

    def encode(data: bytes) -> bytes:
        return compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)

    module = sys.modules[default_records.DefaultRecordBatchBuilder.__module__]
    module.zstd_encode = encode  # type: ignore[attr-defined]
