"""The queue of one process, and what becomes of it when Redis cannot be asked."""

from collections import deque
from collections.abc import Callable
from enum import Enum

from headgate.backends.base import Verdicts
from headgate.core import suppression
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Stage
from headgate.suppression.arrivals import Arrivals
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.settlements import Settlements
from headgate.suppression.underway import UnderWay

_REFUSED = Failure(
    Reason.REDIS_UNAVAILABLE,
    "Redis is not available, and without it this topic publishes nothing",
    retry_after_s=1,
)


class Mode(Enum):
    """AWAY: events go past Redis. CATCHING_UP: they still do, while Redis learns what it missed.
    READY: events are reserved."""

    AWAY = 0
    CATCHING_UP = 1
    READY = 2


class Bypass:
    """What `claims.Claims` stands on. new_stem: 10 bytes that were never used before.

    A token is a stem and a number of two bytes.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        options: SuppressOptions,
        meter: SuppressionMeter,
        new_stem: Callable[[], bytes],
    ) -> None:
        self._verdicts = verdicts
        self._meter = meter
        self._new_stem = new_stem
        self._arrivals = Arrivals()
        self._queue: deque[Publish] = deque()
        self._settlements = Settlements(options.blind_max)
        self._under_way = UnderWay(self._arrivals, options.unknown_max)
        self._draining = False
        self._owes = False  # published blind since Redis was last told everything
        self.mode = Mode.AWAY

    def _enter_lane(self, publish: Publish) -> None:
        if self._arrivals.join_in_lane(publish):
            self._under_way.remove(publish.token)
            self._refuse(publish)
        else:
            self._verdicts.publish(publish)

    def _drop_reserved(self, publish: Publish) -> None:
        self._arrivals.leave(publish)
        if publish.stage is Stage.RESERVING:  # the claim may have left a token
            self._refuse(publish)

    def _refuse(self, publish: Publish) -> None:
        operation = suppression.refused(publish.token)
        self._settlements.add(publish.scope, publish.entry, operation)

    def _bypass_all(self, reason: str) -> None:
        # While this runs, what comes in joins the queue: an event never overtakes one of its key.
        self._draining, count = True, 0
        while self._queue:
            publish = self._queue.popleft()
            if publish.dropped:
                self._drop_reserved(publish)
            else:
                count += self._bypass(publish)
        self._draining = False
        if count:
            self._meter.bypassed(reason, count)

    def _bypass(self, publish: Publish) -> bool:
        """Publish without Redis, or refuse if the topic says so; tells whether it published.

        The claim may have been executed without our hearing of it. So its token is refused with
        the next settlements, behind the registration or settlement of a new one: else it would
        keep the key from being suppressed for a life.
        """
        if publish.refuse:
            self._drop_reserved(publish)
            publish.stage = Stage.ENDED
            self._verdicts.refused(publish, _REFUSED)
            return False
        if publish.stage is Stage.RESERVING:
            self._refuse(publish)
        publish.token = self._new_stem() + bytes(2)
        publish.blind = self._owes = True
        self._under_way.unregistered[publish.token] = publish
        self._enter_lane(publish)
        return True
