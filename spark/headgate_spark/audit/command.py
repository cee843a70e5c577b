"""The command line of the job `audit`."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from headgate.commands.command_line import add_config
from headgate.commands.output import add_quiet
from headgate.model.text import one_line
from headgate_spark.job.command_line import OK, USAGE, JobError, local_path, reason_of
from headgate_spark.job.ending import EndedError, children, end_spark, hushed, signals_caught

if TYPE_CHECKING:
    from headgate.commands.terminal import ProgressLine
    from headgate_spark.audit.job import AuditRequest
    from headgate_spark.audit.result import Document
    from headgate_spark.job.options import JobConfig


AUDIT_EXAMPLES = """examples:
  headgate-spark audit --config headgate.toml --out audit/           all topics, all records
  headgate-spark audit --config F --topics 'orders,deals.*' --from 24h --out audit/
  headgate-spark audit --config F --topics deals --from 2026-01-31T12:00:00Z --to now \\
      --partitions 20,40 --out audit/
  spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4 \\
      deploy/spark/headgate_spark_job.py audit --config F --out /shared/audit

exit codes: 0 ok, 1 failed or ended by a signal, 2 usage or configuration
"""

_PATTERNS = set("*?[]{}\\")  # Spark would read what they match, not what it wrote
_MIN_PATIENCE_S, _MAX_PATIENCE_S = 5, 86_400  # Kafka's client takes 24 days of ms at most


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add the options of `audit`."""
    parser.set_defaults(run=run_audit)
    add = parser.add_argument
    add_config(parser, "the gateway's TOML file")
    add(
        "--out",
        required=True,
        type=local_path,
        metavar="DIR",
        help="directory for the results, shared by driver and executors",
    )
    add("--topics", metavar="P", help="names and globs, separated by commas; default: all")
    add(
        "--from",
        dest="start",
        metavar="T",
        help="2h (ago), ISO 8601 with a zone (such as Z), or ms since 1970; default: all",
    )
    add("--to", dest="end", metavar="T", help="the same; default: now")
    add(
        "--offsets",
        metavar="JSON",
        help="in place of --topics, --from, --to: only that is judged; "
        'such as {"topic": {"0": [first, behind-the-last]}}',
    )
    add("--cluster", metavar="NAME", help="the cluster; default: the only one of tier ingest")
    add("--partitions", default="", metavar="N,N", help="additional partition counts to predict")
    add(
        "--no-publish",
        action="store_true",
        help="only write files; publish nothing to headgate.skew",
    )
    add(
        "--patience",
        type=float,
        default=45.0,
        metavar="S",
        help="seconds to wait for unavailable brokers; default: 45",
    )
    add("--master", metavar="URL", help="Spark's master; default: local[*]")
    add(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark; may be repeated",
    )
    add_quiet(parser)


def run_audit(chosen: argparse.Namespace) -> int:
    """Run `headgate-spark audit`. Raises JobError."""
    from headgate_spark.audit.job import AuditRequest  # slow to import
    from headgate_spark.job.command_line import now_ms, parse_time, report_to_people
    from headgate_spark.job.options import read_config
    from headgate_spark.session.session import is_submitted, parse_settings

    _check(chosen)
    config, now = read_config(chosen.config, os.environ), now_ms()
    request = AuditRequest(
        cluster=chosen.cluster,
        topics=chosen.topics,
        from_ms=None if chosen.start is None else parse_time("--from", chosen.start, now),
        to_ms=None if chosen.end is None else parse_time("--to", chosen.end, now),
        offsets=chosen.offsets,
        counts=_counts(chosen.partitions),
        out=chosen.out.absolute(),
        publish=not chosen.no_publish,
        patience_s=chosen.patience,
    )
    # A task that fails would print its stack on the terminal; its reason becomes one sentence. What
    # spark-submit's Spark logs is for those who run the cluster.
    quiet = {} if is_submitted(os.environ) else {"spark.log.level": "FATAL"}
    settings = {**quiet, **parse_settings(chosen.conf)}
    result = _ended_well(
        config, request, chosen.master, settings, report_to_people(is_quiet=chosen.quiet)
    )
    for topic in result["topics"]:
        verdict = "; ".join([*filter(None, [", ".join(topic["diagnoses"])]), *topic["notes"]])
        read = topic["partitions_read"]
        part = "" if read is None else f" (partition {', '.join(map(str, read))} alone)"
        line = f"{topic['topic']}{part}: {verdict or 'nothing wrong'}"
        sys.stdout.write(f"{one_line(line)}\n")
    sys.stdout.write(f"{request.out / 'index.html'}\n")
    return OK


def _ended_well(
    config: "JobConfig",
    request: "AuditRequest",
    master: str | None,
    settings: dict[str, str],
    report: "ProgressLine",
) -> "Document":
    """Return the result or raise JobError, after the end of Spark and of the run's folder."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    from headgate_spark.audit.job import audit
    from headgate_spark.audit.scratch import remove_dead
    from headgate_spark.session.session import open_session

    before = children()
    with signals_caught() as signals:
        try:
            spark = hushed(open_session("headgate audit", master, settings, report.note))
            signals.catch()
            return audit(spark, config, request, report)
        except EndedError as ended:
            raise JobError(f"{ended} ended it before the audit was done") from ended
        except Py4JNetworkError as error:
            raise JobError(
                f"Spark's Java ended, and an earlier result in --out {request.out} is left"
            ) from error
        except (PySparkException, Py4JError) as error:
            raise JobError(
                f"Spark failed, and an earlier result in --out {request.out} is left: "
                f"{reason_of(error)}"
            ) from error
        finally:
            signals.is_ending = True
            end_spark(before, by_signal=signals.have_arrived)
            remove_dead(request.out)


def _check(chosen: argparse.Namespace) -> None:
    if chosen.offsets is not None and any((chosen.topics, chosen.start, chosen.end)):
        raise JobError("--offsets says what to read: leave out --topics, --from and --to", USAGE)
    if signs := _PATTERNS & set(str(chosen.out.absolute())):
        text = f"--out {chosen.out}: Spark takes {' '.join(sorted(signs))} for a pattern"
        raise JobError(f"{text}: choose another name", USAGE)
    if not _MIN_PATIENCE_S <= chosen.patience <= _MAX_PATIENCE_S:  # also nan
        limits = f"from {_MIN_PATIENCE_S} to {_MAX_PATIENCE_S}"
        text = f"--patience {chosen.patience:g}: seconds, {limits}"
        raise JobError(text, USAGE)


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise JobError(
            f"--partitions {text}: expected numbers separated by commas", USAGE
        ) from error
    if any(not 1 <= count <= 1000 for count in counts):
        raise JobError(f"--partitions {text}: from 1 to 1000", USAGE)
    return counts
