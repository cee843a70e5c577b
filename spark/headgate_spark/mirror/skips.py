"""Topics that cannot be mirrored now: each is skipped, said and counted, and the others go on."""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from headgate_spark.job.errors import JobError

_SAID_AGAIN_S = 300.0


class Reason(StrEnum):
    """Why: the label of the metric."""

    SETTINGS = "settings"  # the backfill topic's would not keep the records as they are
    PARTITIONS = "partitions"  # the backfill topic has more of them
    FOREIGN = "foreign"  # something else has written to the backfill topic
    MAP = "map"  # its offset map contradicts itself
    NO_LEADER = "no_leader"  # one of its partitions is offline
    REFUSED = "refused"  # Kafka does not make it, or does not add partitions


class Skip(NamedTuple):
    """Why a topic is skipped. text: what is wrong, and what to do."""

    reason: Reason
    text: str


class SkipError(JobError):
    """One topic alone cannot be mirrored."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.skip = Skip(reason, text)


class Skips:
    """What is skipped, said when it begins, changes and ends, and now and then meanwhile."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said_s: dict[str, float] = {}
        self.now: Mapping[str, Skip] = {}

    def tell(self, found: Mapping[str, Skip], topics: Collection[str], now_s: float) -> None:
        """Of this round. topics: all that are to be mirrored.  now_s: of any steady clock."""
        before, self.now = self.now, dict(found)
        for topic, skip in found.items():
            is_known = before.get(topic) == skip
            if not is_known or now_s - self._said_s[topic] >= _SAID_AGAIN_S:
                self._said_s[topic] = now_s
                self._say(f"topic {topic} is skipped ({skip.reason}): {skip.text}")
        for topic in before.keys() - found.keys():
            if topic in topics:
                self._say(f"topic {topic} can be mirrored again")
