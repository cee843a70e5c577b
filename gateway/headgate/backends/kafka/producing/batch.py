"""What a lane hands over at once, and how its records end when no broker has said it."""

from typing import Any, NamedTuple

from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.strategies import Prepared
from headgate.core.publish import Publish

UNKNOWN = Failure(Reason.UNKNOWN, "sent to Kafka without an acknowledgement")
BAD_RECORD = Failure(Reason.INTERNAL, "the record could not be encoded")


class LaneBatch(NamedTuple):
    """Publishes that were put into one builder; size: the sum of their sizes in bytes."""

    publishes: list[Publish]
    builder: Any
    size: int

    @classmethod
    def alone(cls, publish: Publish, prepared: Prepared) -> "LaneBatch":
        """A record whose batch was compressed beforehand. Its size keeps it from being taken behind
        others, which would compress it again."""
        return cls([publish], prepared.builder(), publish.size)
