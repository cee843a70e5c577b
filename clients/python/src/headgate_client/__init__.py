"""Client of the Headgate gateway: batches, retries, the order of each key, typed outcomes."""

from headgate_client.aio import AsyncClient
from headgate_client.aio_producer import AsyncBufferedProducer
from headgate_client.client import Client
from headgate_client.errors import (
    BufferFullError,
    ClosedError,
    HeadgateError,
    InvalidEventError,
    InvalidOptionError,
    OutcomeError,
    RejectedError,
    UnknownOutcomeError,
)
from headgate_client.events import TOMBSTONE, CloudEvent, Event, RawJson
from headgate_client.hooks import Attempt, Observer
from headgate_client.outcomes import (
    Duplicate,
    Failed,
    Held,
    LargePath,
    Outcome,
    Published,
    Rejected,
    Spooled,
    Unchanged,
    Unknown,
    Violation,
)
from headgate_client.producer import BufferedProducer
from headgate_client.settings import Buffering, Limits, Retry
from headgate_client.version import __version__

__all__ = [
    "TOMBSTONE",
    "AsyncBufferedProducer",
    "AsyncClient",
    "Attempt",
    "BufferFullError",
    "BufferedProducer",
    "Buffering",
    "Client",
    "ClosedError",
    "CloudEvent",
    "Duplicate",
    "Event",
    "Failed",
    "HeadgateError",
    "Held",
    "InvalidEventError",
    "InvalidOptionError",
    "LargePath",
    "Limits",
    "Observer",
    "Outcome",
    "OutcomeError",
    "Published",
    "RawJson",
    "Rejected",
    "RejectedError",
    "Retry",
    "Spooled",
    "Unchanged",
    "Unknown",
    "UnknownOutcomeError",
    "Violation",
    "__version__",
]
