"""What a mirror says of how far it is."""

from __future__ import annotations

from aiokafka.structs import TopicPartition

from headgate.commands.terminal import Amount
from headgate.replays.offset_map import Layout, MapAddress, MapEntry, PartitionMap
from headgate.replays.segments import NO_RECORDS, Gap, Segment
from headgate_spark.copying.reader import CopyUnit, MapState
from headgate_spark.mirror.lag import Lag
from headgate_spark.mirror.mirror import CopyProgress
from headgate_spark.mirror.plan import Seen

LAYOUT = Layout(4, "a", "b", 0)


def unit(partition: int, position: int | None) -> CopyUnit:
    return CopyUnit(MapAddress("orders", partition, 1), LAYOUT, 1000, MapState(position=position))


def mapped(partition: int, *facts: Segment | Gap) -> PartitionMap:
    found = PartitionMap()
    for fact in (LAYOUT, *facts):
        found.apply(MapEntry(MapAddress("orders", partition, 1), fact))
    return found


TPS = [TopicPartition("orders", number) for number in range(3)]
MAPS = {
    # its log begins at 400; 100 are copied
    TPS[0]: mapped(0, Gap(400, 400, NO_RECORDS, 0), Segment(400, 0, 100, 500, 0, 0)),
    TPS[1]: mapped(1, Segment(0, 0, 250, 250, 0, 0)),  # 50 of which were there before
    TPS[2]: mapped(2),  # nothing yet
}
LAGS = {TPS[0]: Lag(500, 4.4, 0), TPS[1]: Lag(0, 0.0, 7), TPS[2]: Lag(200, 1.0, 0)}


def test_what_was_copied_since_it_began_is_done() -> None:
    progress = CopyProgress([unit(0, None), unit(1, 200), unit(2, None)])
    step = progress.step("main", LAGS, MAPS, has_end=True)
    assert (step.done, step.total) == (150, 850)
    assert step.more == "1 of 3 partitions up to date, 4 s behind, 7 offsets lost to retention"


def test_an_age_that_is_not_known_is_not_said_to_be_none() -> None:
    lags = {**LAGS, TPS[2]: Lag(200, None, 0)}
    step = CopyProgress([unit(0, None)]).step("main", lags, MAPS, has_end=True)
    assert "4 s behind, 1 partition behind for an unknown time" in step.more
    even = {TPS[1]: Lag(0, 0.0, 0), TPS[2]: Lag(4_333, None, 0)}
    said = CopyProgress([]).step("main", even, MAPS, has_end=False).more
    assert "4,333 offsets left, 1 partition behind for an unknown time" in said
    unknown = {TPS[2]: Lag(200, None, 0)}
    assert " s behind" not in CopyProgress([]).step("main", unknown, MAPS, has_end=True).more


def test_what_is_followed_has_no_end() -> None:
    step = CopyProgress([unit(1, 200)]).step("main", LAGS, MAPS, has_end=False)
    assert (step.done, step.total) == (50, None)
    assert "700 offsets left" in step.more


def test_records_and_bytes_are_those_since_it_began() -> None:
    seen = {("orders", 0): Seen(100, 9000), ("orders", 1): Seen()}
    progress = CopyProgress([unit(0, 200), unit(1, None)], lambda *tp: seen[tp])
    seen |= {("orders", 0): Seen(103, 9300), ("orders", 1): Seen(2, 50)}
    step = progress.step("main", LAGS, MAPS, has_end=True)
    assert step.also == (Amount(5, "records"), Amount(350, "B"))
