"""The one place where aiokafka's consumers are made, with what each of them has to tolerate.

aiokafka fails on a header name that is not UTF-8, and its consumer never gets past that record.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from headgate.kafka.access import ClusterAccess, client_arguments
from headgate.kafka.client_metadata import use_own_metadata
from headgate.kafka.lenient_records import LenientRecords


def open_consumer(access: ClusterAccess, **options: Any) -> AIOKafkaConsumer:
    """Return a consumer that is not started yet and commits nothing by itself.

    It reads any header name, creates no topic and asks for metadata as `client_metadata` says.

    Args:
        access: The cluster.
        options: Further arguments of aiokafka's consumer.
    """
    keep_header_names()
    consumer = AIOKafkaConsumer(**client_arguments(access), enable_auto_commit=False, **options)
    use_own_metadata(consumer._client)
    return consumer


def keep_header_names() -> None:
    """Teach the consumers of this process to read any name. A private part of aiokafka 0.14."""
    fetcher.MemoryRecords = lambda data: LenientRecords(data, MemoryRecords, _DefaultRecordBatchPy)
