"""The log field `logger` is public: whoever filters by it must not notice that a module moved."""

import ast
from collections.abc import Iterator
from pathlib import Path

from headgate.metrics import logs
from support.root import ROOT

NAMES = {
    "aiokafka",
    "aiokafka.client",
    "headgate.access",
    "headgate.changes",
    "headgate.requests",
    "headgate.aside",
    "headgate.audits.facts_log",
    "headgate.audits.latest",
    "headgate.blobs",
    "headgate.kafka.group_reader",
    "headgate.kafka.lane",
    "headgate.kafka.lanes",
    "headgate.kafka.topics",
    "headgate.backends.owned",
    "headgate.ingest.clock",
    "headgate.coalescer.partition",
    "headgate.coalescing",
    "headgate.coalescing_process",
    "headgate.consumer.assembler",
    "headgate.consumer.assignment",
    "headgate.consumer.commits",
    "headgate.consumer.consumer",
    "headgate.consumer.failures",
    "headgate.consumer.membership",
    "headgate.control",
    "headgate.http.attempts",
    "headgate.http.confluent.desk",
    "headgate.http.starting",
    "headgate.http.jwt",
    "headgate.http.pages",
    "headgate.http.pauses",
    "headgate.http.server",
    "headgate.idempotency.requests",
    "headgate.http.connection",
    "headgate.idempotency.client",
    "headgate.installation_log",
    "headgate.ladder.climb",
    "headgate.ladder.ladder",
    "headgate.monitor.cluster_monitor",
    "headgate.monitor.monitor",
    "headgate.monitor.pauses",
    "headgate.monitor_client",
    "headgate.prometheus",
    "headgate.monitoring_process",
    "headgate.overview",
    "headgate.private_folder",
    "headgate.reloading",
    "headgate.replays.sweeper",
    "headgate.replays.tiers",
    "headgate.spool",
    "headgate.suppression.suppressor",
    "headgate.tracing",
    "headgate.turn",
    "headgate.worker",
    "headgate.worker_process",
    "headgate.workers",
    "headgate_spark.mirror.copier",
    "headgate_spark.mirror.lag",
    "headgate_spark.replay.copier",
}


def is_naming(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "getLogger"
    )


def named(path: Path) -> Iterator[str]:
    """The names of the loggers that a file asks for; where it is not a fixed word, the code."""
    for node in ast.walk(ast.parse(path.read_text())):
        if is_naming(node):
            assert isinstance(node, ast.Call)
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)
                else:
                    code = ast.unparse(argument)
                    yield getattr(logs, code, f"{path.name}: {code}")


def test_loggers_are_named_by_fixed_words() -> None:
    roots = (ROOT / "gateway" / "headgate", ROOT / "spark" / "headgate_spark")
    assert {name for root in roots for path in root.rglob("*.py") for name in named(path)} == NAMES
