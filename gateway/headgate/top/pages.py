"""What `headgate top` needs of the management port's pages. An answer that lacks it is odd."""

from datetime import datetime
from typing import Annotated, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

Page = TypeVar("Page", bound=Struct)
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class OddPageError(Exception):
    """The page has not what a gateway of this version says; the text has what and where."""


def checked(page: object, kind: type[Page]) -> Page:
    """The page, each of its values of the type that it must have. Raises OddPageError."""
    try:
        return convert(page, kind)
    except ValidationError as error:
        raise OddPageError(str(error)) from error


class Dependency(Struct):
    """Of /ready."""

    ok: bool
    detail: str = ""


class Workers(Struct):
    """Of /ready: how many there are, and should be."""

    up: int
    wanted: int


class Health(Struct):
    """/ready."""

    status: str
    dependencies: dict[str, Dependency]
    workers: Workers | None = None


class Received(Struct):
    """What has come since the gateway's start."""

    events: Count
    bytes: Count


class PairPage(Struct):
    """What a producer posts to one topic."""

    topic: str
    events_total: dict[str, Count]
    received_total: Received
    bytes_saved_total: Count


class ProducerPage(Struct):
    """One of /v1/producers."""

    producer: str
    events_per_s: float
    bytes_per_s: float
    last_seen: Annotated[datetime, Meta(tz=True)] | None
    events_total: dict[str, Count]
    received_total: Received
    bytes_saved_total: Count
    topics: list[PairPage]


class ProducersPage(Struct):
    """/v1/producers. next: where the next page begins; None = this is the last one."""

    producers: list[ProducerPage]
    next: str | None = None


class Skew(Struct):
    """How unequal a topic's partitions are."""

    judged: bool
    hottest_partition_share: float | None = None


class Suppression(Struct):
    """Whether a topic's events are compared now."""

    state: str


class Held(Struct):
    """What is held of a coalescing topic. keys: None = by others."""

    keys: int | None


class TopicPage(Struct):
    """One of /v1/topics."""

    topic: str
    events_per_s: float
    bytes_per_s: float
    skew: Skew
    suppression: Suppression | None
    held: Held | None = None


class TopicsPage(Struct):
    """/v1/topics."""

    topics: list[TopicPage]
    next: str | None = None


class Probation(Struct):
    """Whether a group may go on."""

    admitted: bool


class GroupPage(Struct):
    """One of /v1/groups; the monitor's table shows it."""

    group: str
    cluster: str
    state: str
    lag: Whole
    heat: str
    members: int
    idle_members: int
    stuck_commit: bool
    regressions: Count
    loss_in_s: float | None
    probation: Probation
    unread_topics: list[str] = []


class Committer(Struct):
    """Who committed."""

    client: str


class RegressionPage(Struct, rename={"before": "from"}):
    """A commit that went back."""

    group: str
    topic: str
    partition: int
    before: int
    to: int
    at: str
    committer: Committer | None
    recovered_at: str | None


class RogueReader(Struct):
    """A topic that is read by somebody unknown."""

    topic: str
    unexplained_per_s: float


class ClusterPage(Struct):
    """How well a cluster is seen."""

    cluster: str
    ok: bool
    detail: str
    every_commit_is_seen: bool
    why_not: str | None
    partitions: dict[str, int]
    rogue_readers: list[RogueReader]


class GroupsPage(Struct):
    """/v1/groups."""

    groups: list[GroupPage]
    regressions: list[RegressionPage]
    clusters: list[ClusterPage]
    next: str | None = None


Listed = TypeVar("Listed", ProducersPage, TopicsPage, GroupsPage)
