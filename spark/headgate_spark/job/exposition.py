"""Metrics in Prometheus' text format, in files for its textfile collector."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headgate.model.text import escaped


class Metric(NamedTuple):
    """One metric with its figures. `kind`: gauge or counter. `samples`: labels and value."""

    name: str
    kind: str
    about: str
    samples: Iterable[tuple[Mapping[str, str], float | str]]


def exposed(metrics: Iterable[Metric]) -> str:
    """Return the text of a file."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{_shown(labels)} {value}" for labels, value in metric.samples]
    return "\n".join(lines) + "\n"


def written(job: str, clusters: Iterable[str], now_s: float) -> Metric:
    """Return the metric with the time at which the figures of some clusters were written.

    A file that is no longer written keeps its figures; only their age shows that the process has
    ended.
    """
    about = "When this file was written, in seconds since 1970."
    samples = [({"cluster": cluster}, f"{now_s:.3f}") for cluster in clusters]
    return Metric(f"headgate_{job}_timestamp_seconds", "gauge", about, samples)


class Textfile:
    """The file of `--metrics`.

    A disk that cannot take it ends no job: it is reported once, and once more when the file is
    written again.
    """

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        self._file = file
        self._say = say
        self._is_written = True

    def write(self, text: str) -> None:
        """Replace the file at once: Prometheus' collector never sees half of it."""
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(self._file)
        except OSError as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            if self._is_written:
                self._say(f"--metrics {self._file} cannot be written: {error}")
            self._is_written = False
            return
        if not self._is_written:
            self._say(f"--metrics {self._file} is written again")
        self._is_written = True


def _shown(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return escaped(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
