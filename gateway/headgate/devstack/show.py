"""What `headgate dev` tells about a running stack, to people and to programs."""

import json
import shlex
from pathlib import Path

from headgate.devstack.child import Child
from headgate.devstack.stack import DevStack

_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_SHOWN_OF_A_RECORD = ("partition", "offset", "timestamp", "key", "headers")
_EVENT = '{"id": "2342565", "title": "City break", "price": 199}'


def ready_line(stack: DevStack) -> str:
    """Return the one JSON line of `headgate dev --json`."""
    pids = {name: [child.pid] for name, child in stack.children.items()}
    pids["gateway"] = _with_children(stack.children["gateway"])
    described = {
        "gateway": stack.gateway_url,
        "management": stack.management_url,
        "ingest": stack.ingest.bootstrap,
        "backfill": stack.backfill.bootstrap,
        "redis": stack.redis.url,
        "config": str(stack.config_file),
        "state": str(stack.state),
        "pids": pids,
    }
    return json.dumps(described) + "\n"


def ready_text(stack: DevStack, viewer: Path) -> str:
    """Return what runs, where, and two commands to try. viewer: see `write_topic_viewer`."""
    curl = f"curl -i {stack.gateway_url}/v1/topics/deals/events"
    curl += f" -H 'Content-Type: application/json' -H 'Headgate-Producer: me' -d '{_EVENT}'"
    return f"""
Headgate is running. Ctrl-C stops everything.

  gateway     {stack.gateway_url}/v1/topics/TOPIC/events   (also /live, /ready, /problems)
  console     {stack.management_url}/console   (also /v1/producers, /v1/topics, /metrics)
  ingest      {stack.ingest.bootstrap}   Kafka tier that takes the events
  backfill    {stack.backfill.bootstrap}   Kafka tier for replays
  redis       {stack.redis.url}
  config      {stack.config_file}
  data, logs  {stack.state}

Post an event (the second time it is answered "unchanged"):
  {curl}
See it in Kafka, with partition, offset, key and headers (Ctrl-C ends it):
  {viewer} deals
"""


def write_topic_viewer(stack: DevStack) -> Path:
    """Write the script that prints a topic's records with the Java console consumer."""
    script = stack.state / "show-topic"
    words = [shlex.join(stack.installation.command(_CONSOLE_CONSUMER))]
    words += [f"--bootstrap-server {stack.ingest.bootstrap} --from-beginning"]
    words += [f"--formatter-property print.{what}=true" for what in _SHOWN_OF_A_RECORD]
    words += ['--topic "${1:?usage: show-topic TOPIC [option of the console consumer ...]}"']
    words += ['"${@:2}"']
    script.write_text("#!/usr/bin/env bash\nexec " + " \\\n  ".join(words) + "\n")
    script.chmod(0o755)
    return script


def _with_children(child: Child) -> list[int]:
    listed = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    try:
        return [child.pid, *map(int, listed.read_text().split())]
    except FileNotFoundError:
        return [child.pid]
