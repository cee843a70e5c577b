"""The JMX exporter of Prometheus as a Java agent of the local brokers: their bytes by topic."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headgate.devstack.cache import locked, partial_folder
from headgate.devstack.jars import JarsError, pyspark_jars
from headgate.devstack.ports import LOOPBACK

JMX_VERSION = "1.0.1"
_NAME = f"jmx_prometheus_javaagent-{JMX_VERSION}.jar"
_SHA256 = "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1"
_IVY_MODULE = f"""<ivy-module version="2.0">
  <info organisation="headgate" module="jmx-exporter"/>
  <dependencies defaultconf="default->default">
    <dependency org="io.prometheus.jmx" name="jmx_prometheus_javaagent" rev="{JMX_VERSION}"
                transitive="false"/>
  </dependencies>
</ivy-module>
"""
# The names that the exporter's own example for Kafka gives; the monitor reads no other.
_RULES = """lowercaseOutputName: true
includeObjectNames: ["kafka.server:type=BrokerTopicMetrics,*"]
rules:
- pattern: kafka.server<type=BrokerTopicMetrics, name=(.+)PerSec, topic=(.+)><>Count
  name: kafka_server_brokertopicmetrics_$1_total
  labels: {topic: "$2"}
  type: COUNTER
"""


class JmxAgent(NamedTuple):
    """jar: of the agent."""

    jar: Path

    def flag(self, directory: Path, port: int) -> str:
        """The JVM's flag; writes the exporter's rules into the broker's folder."""
        directory.mkdir(parents=True, exist_ok=True)
        rules = directory / "jmx-exporter.yml"
        rules.write_text(_RULES)
        return f"-javaagent:{self.jar}={LOOPBACK}:{port}:{rules}"


def ensure_agent(cache: Path, java: Path, say: Callable[[str], None]) -> JmxAgent:
    """Return the agent, downloaded and verified when it is not there yet. Raises JarsError."""
    goal = cache / "jmx" / _NAME
    with locked(cache):
        if not goal.exists():
            say(f"downloading the JMX exporter {JMX_VERSION} (3 MB)")
            _download(goal, java)
    return JmxAgent(goal)


def _download(goal: Path, java: Path) -> None:
    with partial_folder(goal.parent.parent) as temporary:
        module = temporary / "ivy.xml"
        module.write_text(_IVY_MODULE)
        command = [str(java), "-cp", f"{pyspark_jars()}/*", "org.apache.ivy.Main"]
        command += ["-m2compatible", "-ivy", str(module), "-confs", "default"]
        command += ["-cache", str(temporary / "ivy")]
        command += ["-retrieve", f"{temporary}/jmx/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = temporary / "jmx" / _NAME
        if done.returncode != 0 or not made.exists():
            raise JarsError(f"Ivy ended with {done.returncode}:\n{done.stdout[-2000:]}")
        if hashlib.sha256(made.read_bytes()).hexdigest() != _SHA256:
            raise JarsError(f"{_NAME} is not the one that is expected")
        goal.parent.mkdir(exist_ok=True)
        made.rename(goal)
