"""What a member of `headgate.consumer` commits beside an offset: who it is, and what is done.

The committed offset lies before the first set of chunks that is incomplete, so what is done may
reach far beyond it. The next owner reads those chunks again; events that are done it leaves out.
"""

import json
from typing import NamedTuple


class Committer(NamedTuple):
    """Who committed, by its own word."""

    member: str
    client: str
    term: int


class CommitNote(NamedTuple):
    """done_below: of the events that end below this offset nothing is left to do, except of those
    whose chunks were not all read; None: the committed offset says it all."""

    committer: Committer
    done_below: int | None = None

    def text(self) -> str:
        """The metadata of the commit."""
        said: dict[str, str | int] = self.committer._asdict()
        if self.done_below is not None:
            said["done_below"] = self.done_below
        return json.dumps(said, separators=(",", ":"))


def read_note(metadata: str) -> CommitNote | None:
    """Read the metadata of a commit; None if it is nobody's of this library."""
    if not metadata.startswith("{"):
        return None
    try:
        said = json.loads(metadata.rstrip("\0"))  # librdkafka sends the end of a C string, too
        committer = Committer(str(said["member"]), str(said["client"]), int(said["term"]))
        done_below = said.get("done_below")
        return CommitNote(committer, None if done_below is None else int(done_below))
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
