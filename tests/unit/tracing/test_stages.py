"""A batch is searched for sampled events only while a sampled request is in flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from headgate.model.publish import Publish
from headgate.tracing.spans import Traces


class Batch(Sequence[Publish]):
    """Counts how often it is searched."""

    def __init__(self) -> None:
        self.looks = 0

    def __len__(self) -> int:
        return 0

    def __getitem__(self, _index: object) -> Publish:  # type: ignore[override]
        raise IndexError

    def __iter__(self) -> Iterator[Publish]:
        self.looks += 1
        return iter(())


@pytest.mark.parametrize(("is_sampled", "looks"), [(False, 0), (True, 3)])
def test_a_batch_is_searched_only_while_a_sampled_request_is_in_flight(
    is_sampled: bool, looks: int
) -> None:
    numbers = count(1)
    traces = Traces(
        int(is_sampled),
        lambda: 0.0,
        lambda digits: f"{next(numbers):0{digits}x}",
        lambda: 1,
        [].extend,
        lambda: None,
    )
    assert traces.is_idle
    trace = traces.begin({})
    assert traces.is_idle is not is_sampled
    batch = Batch()
    traces.handed_over(batch)
    traces.acknowledged(batch, 7)
    traces.failed(batch, "overloaded")
    assert batch.looks == looks
    if trace is not None:
        traces.end(trace, 200)
    assert traces.is_idle
