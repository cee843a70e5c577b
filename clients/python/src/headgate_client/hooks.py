"""What a client reports, for metrics and logs."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headgate_client.outcomes import Outcome, Rejected, Unknown

_log = logging.getLogger("headgate_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request and its answer.

    number: 1 for the first time that these bytes went.  result: `ended` if there is an outcome for
    each event, else the reason of the refusal or why there is no answer.  content_bytes: before
    compression.  request_id: of the gateway's log.  is_bypassed: the gateway could not look the
    Idempotency-Key up, because its Redis is away.
    """

    topic: str
    events: int
    content_bytes: int
    number: int
    duration_s: float
    result: str
    detail: str = ""
    status: int | None = None
    request_id: str | None = None
    is_bypassed: bool = False


class Observer:
    """Override what you want to hear of. It is called by whoever posts: be quick."""

    def attempted(self, attempt: Attempt) -> None:
        """Hear of a request that has ended."""

    def ended(self, topic: str, outcomes: Sequence[Outcome]) -> None:
        """Hear how events ended."""


class LogObserver(Observer):
    """Writes what goes wrong to the logger `headgate_client`; the default."""

    def attempted(self, attempt: Attempt) -> None:
        """Log what is tried again or was refused."""
        if attempt.result != "ended":
            _log.warning(
                "%s: %d events, attempt %d: %s (%s)",
                _shown(attempt.topic), attempt.events, attempt.number, attempt.result,
                _shown(attempt.detail),
            )  # fmt: skip

    def ended(self, topic: str, outcomes: Sequence[Outcome]) -> None:
        """Log how many failed, by reason, with the first detail of each."""
        failed = [one for one in outcomes if isinstance(one, (Rejected, Unknown))]
        details = {one.reason: one.detail for one in reversed(failed)}
        for (name, reason), number in Counter((one.name, one.reason) for one in failed).items():
            detail = _shown(details[reason])
            _log.error("%s: %d events %s: %s (%s)", _shown(topic), number, name, reason, detail)


def _shown(text: str) -> str:
    """Return the text in one line, with escapes for characters that control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def tell(observer: Observer, attempt: Attempt) -> None:
    """Report an attempt; what an observer raises is its own affair, and no event is lost by it."""
    try:
        observer.attempted(attempt)
    except Exception:
        _log.exception("Observer.attempted raised")


def tell_ended(observer: Observer, topic: str, outcomes: Sequence[Outcome]) -> None:
    """Report outcomes, in the same way."""
    try:
        observer.ended(topic, outcomes)
    except Exception:
        _log.exception("Observer.ended raised")
