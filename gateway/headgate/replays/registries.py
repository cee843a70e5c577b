"""What the registries of several backfill clusters say, also when some of them do not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from headgate.core.refusal import Refused
from headgate.core.replays.replay import Registry
from headgate.replays.refusing import asking


class Registries(NamedTuple):
    """answered: registries, by cluster.  refused: why the others could not be asked."""

    answered: Sequence[tuple[str, Registry]]
    refused: Sequence[tuple[str, Refused]]

    def unavailable(self) -> list[dict[str, Any]]:
        """The clusters that did not answer, as JSON."""
        return [{"cluster": name, "why": why.failure.detail} for name, why in self.refused]


async def read_all(
    clusters: Iterable[str], read: Callable[[str], Awaitable[Registry]]
) -> Registries:
    """Ask all at once, since one that hangs takes its time. Raises Refused when there are
    some and none answers."""

    async def ask(name: str) -> tuple[str, Registry | Refused]:
        try:
            async with asking(name):
                return name, await read(name)
        except Refused as refusal:
            return name, refusal

    answers = await asyncio.gather(*map(ask, clusters))
    registries = [(name, one) for name, one in answers if isinstance(one, Registry)]
    refused = [(name, one) for name, one in answers if isinstance(one, Refused)]
    if refused and not registries:
        raise refused[0][1]
    return Registries(registries, refused)
