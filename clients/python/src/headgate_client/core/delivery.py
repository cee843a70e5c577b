"""Delivery of some events of a topic: requests, the meaning of answers, and when to give up.

Events that may have been written are sent again as the same bytes with the same Idempotency-Key.
Events that were certainly not written are sent again without the others, with a new key, before
all events behind them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from headgate_client.core.answer import NEW_OUTCOME, Answer, Ended, Lost, Refused
from headgate_client.core.encode import Part, body_of
from headgate_client.core.order import Disorder, End, disorder_of
from headgate_client.outcomes import Key, Outcome, Rejected, Unknown
from headgate_client.settings import Limits, Retry

CONFLICT = "idempotency_conflict"
UNKNOWN_HOST_TRIES = 5  # in a row; then the host is taken for one that does not exist
_LEAST_S = 0.005  # of patience, for another attempt: a timer may be early
_TOO_MUCH = ("too_large", "too_many_events")
# Reasons of the event itself: an earlier attempt would have failed as well.
_OF_THE_EVENT = {
    *_TOO_MUCH, "malformed", "missing_key", "invalid_key", "schema_violation", "headers_too_large",
    "unsupported_encoding", "needs_native_api", "idempotency_mismatch",
}  # fmt: skip
_NOT_A_GATEWAY = "this may not be the port of a Headgate gateway"
_DOUBT = "an earlier attempt may have been written"


class Post(NamedTuple):
    """One request.

    Attributes:
        events: Number of its events.
        attempt: 1 for the first request with these bytes.
    """

    topic: str
    headers: tuple[tuple[str, str], ...]
    content: bytes
    events: int
    attempt: int


class Step(NamedTuple):
    """Result of an answer.

    ended: positions of the events that now have their outcome.  wait_s: time until the next post;
    None if all events have ended.
    """

    ended: list[int]
    wait_s: float | None


class Chances(NamedTuple):
    """Sources of randomness.

    Attributes:
        share: Returns a number from 0 to 1.
        new_key: Returns an Idempotency-Key; None sends none.
    """

    share: Callable[[], float]
    new_key: Callable[[], str] | None


class Delivery:
    """Events of one topic until each has ended. Repeat `post` and `answered` until no event waits.

    Args:
        end_s: Time to give up, in seconds by the clock of `answered`.
        own_key: The caller's Idempotency-Key for all events in one request. That request is
            repeated as a whole, until an event must not be in it (core/order.py).
    """

    def __init__(
        self,
        topic: str,
        parts: Sequence[Part],
        retry: Retry,
        limits: Limits,
        chances: Chances,
        end_s: float,
        own_key: str | None = None,
    ) -> None:
        self.topic = topic
        self.parts = parts
        self.is_batch = len(parts) > 1
        self.outcomes: list[Outcome | None] = [None] * len(parts)
        self._retry, self._limits, self._chances = retry, limits, chances
        self._end_s, self._own_key = end_s, own_key
        # Both in order, and quick to look into: thousands of events may fail at once.
        self._open = dict.fromkeys(range(len(parts)))
        self._current: dict[int, None] = {}
        self._kept: Post | None = None
        self._attempt = 0
        self._unknown_hosts = 0  # tries in a row
        self._doubtful: set[int] = set()  # an attempt that was not answered may have written them
        self._latest: dict[int, Outcome] = {}  # of `_current`, as far as there are outcomes
        self._before: dict[int, Outcome] = {}  # they are written, and have to be written again
        self._was_answered = False  # in HTTP
        self._last: Refused | Lost = Lost("it was never tried", False, "unreachable")

    def post(self) -> Post:
        """Return the next request."""
        if self._kept is not None:
            self._kept = self._kept._replace(attempt=self._kept.attempt + 1)
            return self._kept
        self._current = dict.fromkeys(self._next())
        self._latest = {}
        body = body_of([self.parts[at] for at in self._current])
        key = self._own_key or (self._chances.new_key() if self._chances.new_key else None)
        headers = body.headers if key is None else (*body.headers, ("Idempotency-Key", key))
        self._kept = Post(self.topic, headers, body.content, len(self._current), 1)
        return self._kept

    def answered(self, answer: Answer, now_s: float) -> Step:
        """Take the answer to the last post."""
        self._attempt += 1
        answer = self._without_hopeless(answer)
        if isinstance(answer, Ended):
            self._was_answered = True
            return self._after_outcomes(answer, now_s)
        self._was_answered = self._was_answered or answer.status is not None
        self._last = self._with_port_hint(answer)
        if isinstance(answer, Lost):
            if answer.was_sent:
                self._doubtful.update(self._current)
                if answer.is_final or not self._retry.repeat_unknown:
                    return self._next_step(self._end_all(self._current))
            return self._again(answer, now_s)
        if answer.reason == CONFLICT:
            self._doubtful.update(self._current)
        if answer.retryable:
            return self._again(answer, now_s)
        if answer.reason in _TOO_MUCH and len(self._current) > 1 and self._own_key is None:
            self._limits = replace(self._limits, max_events=(len(self._current) + 1) // 2)
            self._kept = None
            return Step([], 0.0)
        return self._next_step(self._end_all(self._current))

    def give_up(self, *, is_posted: bool) -> list[int]:
        """End all open events with the best knowledge. is_posted: a request is under way."""
        if is_posted:
            self._doubtful.update(self._current)
            self._last = Lost("it was given up before there was an answer")
        return self._end_all(list(self._open))

    def _without_hopeless(self, answer: Answer) -> Answer:
        """Turn an unknown host into a refusal after some tries: waiting does not help."""
        is_unknown = isinstance(answer, Lost) and answer.is_unknown_host
        self._unknown_hosts = self._unknown_hosts + 1 if is_unknown else 0
        if not isinstance(answer, Lost) or self._unknown_hosts < UNKNOWN_HOST_TRIES:
            return answer
        detail = f"{answer.detail}; the host is unknown after {UNKNOWN_HOST_TRIES} tries"
        return Refused("unreachable", detail, retryable=False, status=None)

    def _with_port_hint(self, answer: Refused | Lost) -> Refused | Lost:
        """Add a hint about the port if no request was ever answered in HTTP."""
        if self._was_answered or not isinstance(answer, Lost):
            return answer
        if answer.is_final or not answer.was_sent:
            return answer
        return replace(answer, detail=f"{answer.detail}; {_NOT_A_GATEWAY}")

    def _next(self) -> list[int]:
        """Return the open events of the next request: those of one form, in their order."""
        taken: list[int] = []
        size = 0
        for at in self._open:
            part = self.parts[at]
            size += len(part.text)
            is_full = len(taken) == self._limits.max_events or size > self._limits.max_bytes
            if taken and self._own_key is None and is_full:
                break
            if taken and (part.form == "single" or part.form != self.parts[taken[0]].form):
                break
            taken.append(at)
        return taken

    def _after_outcomes(self, answer: Ended, now_s: float) -> Step:
        for at, outcome in zip(self._current, answer.outcomes, strict=True):
            if outcome.name == "unknown" or _is_conflict(outcome):
                self._doubtful.add(at)
            before = self._latest.get(at)
            if before is None or not before.succeeded:  # the first good end has the place
                self._latest[at] = outcome
        disorder = self._disorder(answer)
        self._before.update({at: self._latest[at] for at in disorder.behind})
        self._latest.update(disorder.left_out)
        self._latest.update(disorder.behind)
        again = {
            at
            for at, outcome in self._latest.items()
            if at not in disorder.left_out and self._goes_again(outcome)
        }
        if disorder:
            # As a whole, the request would bring back what was left out, and would not write
            # again what has to be the last. A state twice does no harm.
            self._own_key = None
            self._doubtful.update(disorder.behind)
        is_whole = self._own_key is not None or (
            not disorder and any(self._latest[at].name == "unknown" for at in again)
        )
        if again and is_whole:
            return self._again(answer, now_s)
        ended = [at for at in self._current if at not in again]
        for at in ended:
            self._end(at, self._latest[at])
        if not again:
            return self._next_step(ended)
        wait_s = self._wait_s(answer, now_s)
        if wait_s is None:
            return Step([*ended, *self._end_all(list(self._open))], None)
        self._kept = None  # those that are left go without the others
        return Step(ended, wait_s)

    def _goes_again(self, outcome: Outcome) -> bool:
        if isinstance(outcome, Unknown) and outcome.reason == NEW_OUTCOME:
            return False  # a gateway without Redis would write it once more
        is_harmless = self._retry.repeat_unknown or outcome.name != "unknown"
        return outcome.retryable and is_harmless

    def _disorder(self, answer: Ended) -> Disorder:
        """Return the events that the answer shows to be in the wrong order (states only)."""
        if self._retry.overtaken != "leave_out":
            return Disorder({}, {})
        ends = [
            End(at, self._key_of(at) or now.key, now, self._latest[at], self._before.get(at))
            for at, now in zip(self._current, answer.outcomes, strict=True)
        ]
        return disorder_of(
            reversed(ends), is_repeat=self._kept is not None and self._kept.attempt > 1
        )

    def _again(self, answer: Answer, now_s: float) -> Step:
        """Repeat the request, unless it is too late."""
        wait_s = self._wait_s(answer, now_s)
        if wait_s is not None:
            return Step([], wait_s)
        return Step(self._end_all(list(self._open)), None)

    def _wait_s(self, answer: Answer, now_s: float) -> float | None:
        """Return the wait, which ends with the patience; None if it is too late for an attempt."""
        left_s = self._end_s - now_s
        if answer.retry_after_s > left_s or left_s < _LEAST_S:
            return None
        wait_s = self._retry.wait_s(self._attempt, answer.retry_after_s, self._chances.share())
        return min(wait_s, left_s)

    def _next_step(self, ended: list[int]) -> Step:
        self._kept = None
        self._attempt = 0
        return Step(ended, 0.0 if self._open else None)

    def _end_all(self, places: Iterable[int]) -> list[int]:
        """End these events with the best knowledge of each, and return their positions."""
        ending = [at for at in places if self.outcomes[at] is None]
        for at in ending:
            self._end(at, self._latest.get(at) or self._failure(at))
        return ending

    def _end(self, at: int, outcome: Outcome) -> None:
        if (
            isinstance(outcome, Rejected)
            and at in self._doubtful
            and outcome.reason not in _OF_THE_EVENT
        ):
            outcome = Unknown(
                topic=self.topic,
                reason=outcome.reason,
                status=outcome.status,
                key=outcome.key,
                event_id=outcome.event_id,
                request_id=outcome.request_id,
                detail=f"{outcome.detail}; {_DOUBT}",
            )
        self.outcomes[at] = outcome
        del self._open[at]

    def _failure(self, at: int) -> Outcome:
        """Return the outcome of one event after an answer that had no outcomes."""
        last, key, event_id = self._last, self._key_of(at), self.parts[at].event_id
        if at in self._current and isinstance(last, Refused):
            return Rejected(
                topic=self.topic,
                reason=last.reason,
                detail=last.detail,
                status=last.status,
                retryable=last.retryable,
                event_id=event_id,
                **last.figures,
                key=last.key if key is None and len(self._current) == 1 else key,
            )
        if at in self._doubtful:
            was_lost = isinstance(last, Lost) and last.was_sent
            return Unknown(
                topic=self.topic,
                reason=last.reason if was_lost else "no_answer",
                detail=last.detail,
                status=last.status,
                key=key,
                event_id=event_id,
                request_id=_request_id(last),
            )
        reason = "unreachable" if at in self._current else "not_sent"
        return Rejected(
            topic=self.topic,
            reason=reason,
            detail=last.detail,
            retryable=True,
            key=key,
            event_id=event_id,
        )

    def _key_of(self, at: int) -> Key:
        return as_key(self.parts[at].lane)


def as_key(lane: bytes | None) -> Key:
    """Return a key as text, or as bytes if it is not UTF-8."""
    if lane is None:
        return None
    try:
        return lane.decode()
    except UnicodeDecodeError:
        return lane


def _request_id(answer: Refused | Lost) -> str | None:
    return answer.request_id if isinstance(answer, Lost) else answer.figures.get("request_id")


def _is_conflict(outcome: Outcome) -> bool:
    return isinstance(outcome, Rejected) and outcome.reason == CONFLICT
