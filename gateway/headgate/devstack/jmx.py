"""The JMX exporter of Prometheus as a Java agent of the local brokers: their bytes by topic."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headgate.devstack.jars import Dependency, JarSet, ensure_jars
from headgate.devstack.ports import LOOPBACK

JMX_VERSION = "1.0.1"
_AGENT = JarSet(
    f"the JMX exporter {JMX_VERSION}",
    3,
    (Dependency("io.prometheus.jmx", "jmx_prometheus_javaagent", JMX_VERSION, is_alone=True),),
    Path(__file__).with_name("jmx-agent.sha256"),
)
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
    (jar,) = ensure_jars(_AGENT, cache / "jmx", java, say)
    return JmxAgent(jar)
