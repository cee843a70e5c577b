"""Probation of groups over a restart of the monitor: one small JSON file."""

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from headgate.core.groups.cluster_watch import ClusterWatch
from headgate.core.groups.probation import Probation

log = logging.getLogger("headgate.monitor.kept_probation")

Known = dict[str, dict[str, Probation]]


def read_probation(path: Path | None) -> Known:
    """By cluster and group; empty where there is no file yet. One that is broken is set aside."""
    if path is None or not path.exists():
        return {}
    try:
        said = json.loads(path.read_text())
        return {
            cluster: {group: Probation(*times) for group, times in groups.items()}
            for cluster, groups in said.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("monitor.state_file %s cannot be used and is replaced: %s", path, error)
        with suppress(OSError):
            path.replace(path.with_suffix(path.suffix + ".broken"))
        return {}


def write_probation(path: Path | None, clusters: Iterable[tuple[str, ClusterWatch]]) -> None:
    """Write it aside, then rename. A file that cannot be written is logged."""
    if path is None:
        return
    said: Mapping[str, Mapping[str, Probation]] = {
        name: {group: one.probation for group, one in watch.groups.items()}
        for name, watch in clusters
    }
    fresh = path.with_suffix(path.suffix + ".new")
    try:
        fresh.write_text(json.dumps(said))
        fresh.replace(path)
    except OSError as error:
        log.warning("monitor.state_file %s cannot be written: %s", path, error)
