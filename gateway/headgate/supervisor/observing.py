"""What the parent's poll of its workers says to the observer of the installation log."""

from collections.abc import Collection, Mapping

from headgate.core.installation.observer import Seen
from headgate.core.suppression.states import worst
from headgate.stats.fleet import Fleet
from headgate.supervisor.control import WorkerState


def seen_of(
    states: Collection[WorkerState],
    dependencies: Mapping[str, Mapping[str, object]],
    figures: Fleet,
    is_complete: bool,
) -> Seen:
    """dependencies: as /ready shows them.  is_complete: every worker has answered."""
    suppression = worst(state.suppression for state in states)
    spooled = sum(figures.gauge("headgate_spool_events").values())
    return Seen(
        {name: (bool(one["ok"]), str(one["detail"])) for name, one in dependencies.items()},
        _servers(states),
        {topic: one.state for topic, one in suppression.items()},
        int(spooled) if is_complete else None,
        figures.counter("headgate_producer_rebuilds_total"),
    )


def _servers(states: Collection[WorkerState]) -> dict[str, str]:
    """By dependency the process that answers; left out while workers have different ones."""
    found: dict[str, set[str]] = {}
    for state in states:
        for dependency in state.readiness.dependencies:
            if dependency.server:
                found.setdefault(dependency.name, set()).add(dependency.server)
    return {name: servers.pop() for name, servers in found.items() if len(servers) == 1}
