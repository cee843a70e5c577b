"""A meter of the gateway with nothing counted yet, and what it has counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headgate.metrics.meter import Labels, Meter


class Anything:
    """Contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


def a_meter(clock: Callable[[], float] = lambda: 0.0) -> Meter:
    """Return a meter in which each producer and topic has a label of its own."""
    return Meter(Labels(Anything(), lambda topic: True), clock)


def counted(meter: Meter, name: str) -> dict[tuple[str, ...], float]:
    """Return a counter's values by labels; it is named without `headgate_` and `_total`."""
    return meter.collect().counters.get(f"headgate_{name}_total", {})


def sizes(meter: Meter) -> dict[tuple[str, ...], float]:
    """Return the bytes of events by producer and topic."""
    rows = meter.collect().histograms["headgate_event_bytes"]
    return {labels: row.sum for labels, row in rows.items()}


def requests(meter: Meter) -> dict[tuple[str, int], int]:
    """Return the number of requests by route and status."""
    rows = meter.collect().histograms["headgate_request_seconds"]
    return {(route, int(status)): sum(row.counts) for (route, status), row in rows.items()}


def exemplars(meter: Meter) -> list[tuple[str, int, str]]:
    """Return route, status and trace id of each exemplar."""
    rows = meter.collect().histograms["headgate_request_seconds"]
    return [
        (route, int(status), exemplar.trace_id)
        for (route, status), row in rows.items()
        for exemplar in row.exemplars.values()
    ]


def reject_ids(*meters: Meter) -> list[str]:
    """Return the request ids of the rejects, in order of time for each producer and topic."""
    collected = map(partial(Meter.collect, with_details=True), meters)
    details = [detail for snapshot in collected for detail in snapshot.details.values()]
    return [reject.request_id for detail in details for reject in detail.rejects]
