"""Metrics in Prometheus' text format, in files for its textfile collector."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Metric(NamedTuple):
    """One metric with what is known of it. kind: gauge or counter.  samples: labels and value."""

    name: str
    kind: str
    about: str
    samples: Iterable[tuple[Mapping[str, str], float | str]]


def exposed(metrics: Iterable[Metric]) -> str:
    """The text of a file."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{_shown(labels)} {value}" for labels, value in metric.samples]
    return "\n".join(lines) + "\n"


def written(job: str, clusters: Iterable[str], now_s: float) -> Metric:
    """When the figures of some clusters were written.

    A file that nobody writes any more keeps its figures: only its age shows that the process is
    gone.
    """
    about = "When this file was written, in seconds since 1970."
    samples = [({"cluster": cluster}, f"{now_s:.3f}") for cluster in clusters]
    return Metric(f"headgate_{job}_timestamp_seconds", "gauge", about, samples)


def write_textfile(file: Path, text: str) -> None:
    """Replace the file at once: Prometheus' collector never sees half of it."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


def _shown(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
