"""What one request has claimed, and what is to be remembered of it when its events have ended."""

from collections.abc import Iterator, Sequence

from headgate.core.idempotency import remembered
from headgate.core.idempotency.protocol import DONE, PARTLY, RELEASE, Claim, ClaimStep
from headgate.core.outcome import Outcome


class Attempt:
    """One request's claims. Mutable: it goes with the request's ticket.

    request: of its Idempotency-Key.  known: what earlier attempts under that key ended well, as
    answers, by place in the request.  events: of event ids, by place.  twins: events whose id
    and content an earlier event of the same request has, and that one's place.
    bypassed: Redis could not be asked about the Idempotency-Key.  is_told: what is to be remembered
    was handed on.
    """

    __slots__ = ("_late", "bypassed", "events", "is_told", "known", "request", "twins")

    def __init__(self, request: Claim | None = None) -> None:
        self.request = request
        self.known: dict[int, Outcome] = {}
        self.events: dict[int, Claim] = {}
        self.twins: dict[int, int] = {}
        self.bypassed = self.is_told = False
        self._late: dict[int, Outcome] = {}

    def late(self, index: int, outcome: Outcome) -> None:
        """An event that was answered `unknown` has ended after all."""
        self._late[index] = outcome

    def answer_twins(self, outcomes: list[Outcome | None]) -> None:
        """Events that wait for their twin end as it ended: all others have ended."""
        for index, first in self.twins.items():
            outcome = outcomes[first]
            if outcome is not None:
                outcomes[index] = _twin_of(outcome)

    def is_replay(self, outcomes: Sequence[Outcome | None]) -> bool:
        """Whether all of the answer is from memory."""
        if not self.known or len(self.known) != len(outcomes):
            return False
        first = outcomes[0]
        return (
            first is not None and first.failure is None
        )  # else the request was refused as a whole

    def operations(self, outcomes: Sequence[Outcome | None]) -> Iterator[tuple[bytes, ClaimStep]]:
        """What Redis is told at the end, when no outcome can change any more.

        Each with the token of its claim.
        """
        ended = [self._late.get(index, outcome) for index, outcome in enumerate(outcomes)]
        for index, claim in self.events.items():
            outcome = ended[index]
            if outcome is not None and remembered.ended_well(outcome):
                yield claim.token, claim.operation(DONE, remembered.pack([(0, outcome)]))
            else:
                yield claim.token, claim.operation(RELEASE)
        if self.request is not None:
            if self._late:
                self.answer_twins(ended)
            yield self.request.token, _of_request(self.request, ended)


def _of_request(claim: Claim, ended: Sequence[Outcome | None]) -> ClaimStep:
    well = [
        (index, outcome)
        for index, outcome in enumerate(ended)
        if outcome is not None and remembered.ended_well(outcome)
    ]
    if not well:
        return claim.operation(RELEASE)
    letter = DONE if len(well) == len(ended) else PARTLY
    return claim.operation(letter, remembered.pack(well))


def _twin_of(outcome: Outcome) -> Outcome:
    """As a duplicate of the first, or failed as it failed."""
    return remembered.duplicate(outcome) if remembered.ended_well(outcome) else outcome
