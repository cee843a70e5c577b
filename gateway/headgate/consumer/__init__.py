"""The library for consumers: what is done is committed, what is paused stays paused."""

from headgate.consumer.assembler import Assembler
from headgate.consumer.consumer import Consumer
from headgate.consumer.options import ConsumerOptions, Counts, GaveUpError, Retries
from headgate.consumer.partition import Received
from headgate.redis.pauses import RedisPauses

__all__ = [
    "Assembler",
    "Consumer",
    "ConsumerOptions",
    "Counts",
    "GaveUpError",
    "Received",
    "RedisPauses",
    "Retries",
]
