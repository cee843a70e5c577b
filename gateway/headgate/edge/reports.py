"""What the front of events asks of others."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headgate.core.outcome import Failure, Outcome
from headgate.core.oversize.weigh import Weight
from headgate.edge.auth import Identity
from headgate.edge.peer import Peer


class Weigher(Protocol):
    """Finds the heaviest paths of documents, without holding up the event loop."""

    async def weigh(self, document: bytes) -> list[Weight]: ...


class Requests(Protocol):
    """What the front reports of each request."""

    def request(self, route: str, status: int, seconds: float) -> None: ...

    def account(
        self,
        producer: str,
        topic: str,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str,
    ) -> None: ...


class Quotas(Protocol):
    """What producers may send (`pipeline.quotas`). policies: of those who have a quota."""

    @property
    def policies(self) -> Mapping[str, str]: ...

    def refusal(self, producer: str, size: int) -> Failure | None: ...

    def fields(self, producer: str) -> tuple[tuple[str, str], ...]: ...


class Callers(Protocol):
    """Who is asking (`edge.auth`)."""

    def identify(self, headers: Mapping[bytes, bytes], peer: Peer) -> Identity | Failure: ...
