"""What measures the stages costs a batch nothing while no request of it is sampled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from headgate.backends.base import Deliveries
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish
from headgate.tracing.spans import Sampling, Traces
from headgate.tracing.stages import TracedDeliveries


class Batch(Sequence[Publish]):
    """Knows whether anybody has looked at it."""

    def __init__(self) -> None:
        self.looks = 0

    def __len__(self) -> int:
        return 0

    def __getitem__(self, _index: object) -> Publish:  # type: ignore[override]
        raise IndexError

    def __iter__(self) -> Iterator[Publish]:
        self.looks += 1
        return iter(())


class Told:
    """`base.Deliveries` that count."""

    def __init__(self) -> None:
        self.calls = 0

    def handed_over(self, _batch: Sequence[Publish]) -> None:
        self.calls += 1

    def acknowledged(self, _batch: Sequence[Publish], _base_offset: int) -> None:
        self.calls += 1

    def failed(self, _batch: Sequence[Publish], _failure: Failure) -> None:
        self.calls += 1


@pytest.mark.parametrize(("is_sampled", "looks"), [(False, 0), (True, 3)])
def test_a_batch_is_looked_at_only_while_a_sampled_request_is_under_way(
    is_sampled: bool, looks: int
) -> None:
    numbers = count(1)
    draws = Sampling(int(is_sampled), lambda: 0.0)
    traces = Traces(
        draws, lambda digits: f"{next(numbers):0{digits}x}", lambda: 1, [].extend, lambda: None
    )
    assert traces.is_idle
    trace = traces.begin({})
    assert traces.is_idle is not is_sampled
    batch, told = Batch(), Told()
    deliveries: Deliveries = TracedDeliveries(told, traces)
    deliveries.handed_over(batch)
    deliveries.acknowledged(batch, 7)
    deliveries.failed(batch, Failure(Reason.OVERLOADED, "full"))
    assert (batch.looks, told.calls) == (looks, 3)
    if trace is not None:
        traces.end(trace, 200)
    assert traces.is_idle
