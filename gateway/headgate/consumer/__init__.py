"""The library for consumers: it commits only finished events, and pauses hold."""

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
