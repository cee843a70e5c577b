"""The publishes of this process whose end is not known, and whether Redis knows of each."""

from collections.abc import Iterable, Iterator

from headgate.core.publish import Publish, Stage
from headgate.core.suppression.protocol import Scope
from headgate.suppression.arrivals import Arrivals


class PublishesInFlight:
    """Every publish from its verdict to its settlement.

    Costs nothing for the many that end soon: they are those of the arrivals that are in a lane or
    handed over, and only what `rotate` finds twice is renewed.
    unregistered: by token, those that Redis may not know; REGISTERed before the next claim.
    unknown: by token; ended for their client, but they may yet land; kept until their token has
    expired.
    unfenced: by topic and partition, the tokens of unknown ones that may land however late: until
    a later record of this process is in that partition, the broker takes what is still on its way
    from the former producer. They are renewed meanwhile, unless the topic was recreated without
    that partition: then nothing lands there, and no acknowledgement will come.
    """

    __slots__ = (
        "_arrivals",
        "_fences",
        "_seen",
        "_unknown_max",
        "unfenced",
        "unknown",
        "unregistered",
    )

    def __init__(self, arrivals: Arrivals, unknown_max: int, fences_by_writing: bool) -> None:
        self._arrivals = arrivals
        self._seen: set[bytes] = set()  # tokens of those that were here at the last rotation
        self._unknown_max = unknown_max
        self._fences = fences_by_writing
        self.unfenced: dict[tuple[str, int], set[bytes]] = {}
        self.unknown: dict[bytes, tuple[Publish, float]] = {}
        self.unregistered: dict[bytes, Publish] = {}

    def __iter__(self) -> Iterator[Publish]:
        yield from self._on_their_way()
        for publish, _ in self.unknown.values():
            yield publish

    def _on_their_way(self) -> Iterator[Publish]:
        for publish in self._arrivals:
            if publish.stage in (Stage.LANE, Stage.HANDED):
                yield publish

    def remove(self, token: bytes) -> None:
        """Its end is known (or it never began)."""
        known = self.unknown.pop(token, None)
        if known is not None and self.unfenced:
            self._discard(known[0])
        self.unregistered.pop(token, None)

    def leave_unknown(self, publish: Publish, until_s: float) -> None:
        """It may land until then (s). Registered once more, so that its token lives as long.

        Beyond the bound the oldest is no longer registered again when Redis loses its state: as
        with what a dead process left on the wire, the quarantine has to outlast it.
        """
        self.remove(publish.reserved.token)
        if len(self.unknown) >= self._unknown_max:
            self.remove(next(iter(self.unknown)))
        self.unknown[publish.reserved.token] = (publish, until_s)
        self.unregistered[publish.reserved.token] = publish
        if self._fences:
            self.unfenced.setdefault(_place(publish), set()).add(publish.reserved.token)

    def fence(self, publish: Publish) -> None:
        """A record was acknowledged: what is unknown in its partition lands no more.

        A lane hands nothing over behind a batch of unknown end but to the producer's successor,
        which has the same producer id and a higher epoch (KIP-360).
        """
        self.unfenced.pop(_place(publish), None)

    def rotate(self, now_s: float, token_ttl_s: float) -> None:
        """Renew what was here at the last rotation already; forget unknown ones that expired."""
        here = {publish.reserved.token: publish for publish in self._on_their_way()}
        for token in self._seen & here.keys():
            self.unregistered[token] = here[token]
        self._seen = set(here)
        for place, tokens in list(self.unfenced.items()):
            for token in list(tokens):
                publish, _ = self.unknown[token]
                if publish.record.partition >= publish.reserved.scope.partitions:
                    tokens.discard(token)  # its topic was recreated: no such partition any more
                    continue
                self.unknown[token] = (publish, now_s + token_ttl_s)
                self.unregistered[token] = publish
            if not tokens:
                del self.unfenced[place]
        gone = [token for token, (_, until_s) in self.unknown.items() if until_s <= now_s]
        for token in gone:
            self.remove(token)

    def _discard(self, publish: Publish) -> None:
        place = _place(publish)
        tokens = self.unfenced.get(place)
        if tokens is not None:
            tokens.discard(publish.reserved.token)
            if not tokens:
                del self.unfenced[place]

    def register_again(self, scopes: Iterable[Scope] | None = None) -> None:
        """Redis may have lost them: all, or those of some namespaces."""
        wanted = None if scopes is None else set(scopes)
        for publish in self:
            if wanted is None or publish.reserved.scope in wanted:
                self.unregistered[publish.reserved.token] = publish

    def scopes(self) -> set[Scope]:
        """Namespaces with anything in flight."""
        return {publish.reserved.scope for publish in self}


def _place(publish: Publish) -> tuple[str, int]:
    return publish.record.topic, publish.record.partition
