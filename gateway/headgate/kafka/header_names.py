"""Header names that are not UTF-8, for aiokafka's consumers: they fail on them, for good."""

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from headgate.kafka.lenient_records import LenientRecords


def keep_header_names() -> None:
    """Teach the consumers of this process to read them. A private part of aiokafka 0.14."""
    fetcher.MemoryRecords = lambda data: LenientRecords(data, MemoryRecords, _DefaultRecordBatchPy)
