"""The result as files: tables, JSON, the page and metrics, all of them or none."""

import json
from collections.abc import Sequence
from pathlib import Path

from headgate.core.terminal.text import escaped
from headgate_spark.audit.judgement.figures import TopicFigures
from headgate_spark.audit.passes.count_all import KEYS, LOAD
from headgate_spark.audit.report.page import page
from headgate_spark.audit.report.result import Document
from headgate_spark.audit.report.textfile import textfile
from headgate_spark.job.errors import JobError


def write_files(
    result: Document, figures: Sequence[TopicFigures], folder: Path, out: Path, at_ms: int
) -> None:
    """Put the tables that are in `folder`, and the rest of the result, in the place of an earlier.

    Written beside it first, then renamed: Prometheus and browsers never see half a file, and a
    disk that is full leaves the earlier result as it was. Raises JobError.
    """
    texts = {
        "audit.json": json.dumps(result, indent=1, ensure_ascii=False) + "\n",
        "index.html": page(result, figures),
        "headgate-skew.prom": textfile(result, at_ms),
    }
    try:
        for name, text in texts.items():
            (folder / name).write_text(escaped(text), encoding="utf-8")
        for name in texts:
            (folder / name).replace(out / name)
        for name in (LOAD, KEYS):
            if (out / name).exists():
                (out / name).rename(folder / f"earlier-{name}")
            (folder / name).rename(out / name)
    except OSError as error:
        raise JobError(f"--out {out} cannot take the result: {error}") from error
