"""One run of `headgate dev`, from the first line on the screen to the last child's end."""

import asyncio
import fcntl
import json
import random
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from headgate.devstack.child import Child, Ledger, StartError
from headgate.devstack.demo import (
    IS_STUCK,
    KEEPS_UP,
    POSTS_PER_S,
    consume_until_cancelled,
    post_until_cancelled,
)
from headgate.devstack.java import cache_directory
from headgate.devstack.ports import prefer
from headgate.devstack.servers import ensure_agent, find_redis, prepare_kafka
from headgate.devstack.stack import (
    CHOSEN_PORTS,
    OPERATIONS,
    DevStack,
    Ports,
    Table,
    option_of,
)
from headgate.model.text import indented

Say = Callable[[str], None]
PREFERRED = Ports(
    gateway=8080, management=9090, ingest=9092, backfill=9192, redis=6379, monitor=9096
)
_LOGS = ("gateway.log", *(f"{name}.log" for name in OPERATIONS))
_DATA = ("ingest", "backfill", "redis", "headgate.toml", "show-topic", *_LOGS)
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
_UNKNOWN_TOPIC = r"""topic="${1:?usage: show-topic TOPIC [option of the console consumer ...]}"
case " @CONFIGURED@ " in
  *" $topic "*) ;;  # only other names wait for the list
  *) if topics=$(@LIST@) && ! grep -Fxq -- "$topic" <<< "$topics"; then
       echo "show-topic: there is no topic \"$topic\". Topics:" $topics >&2
       exit 1
     fi ;;
esac
"""
_SHOWN_OF_A_RECORD = ("partition", "offset", "timestamp", "key", "headers")
_EVENT = '{"id": "2342565", "title": "City break", "price": 199}'
_WATCH_INTERVAL_S = 0.1
_STILL_S = 10.0  # between two lines about a process that is not ready again
_PAUSES_S = (0.0, 1.0, 3.0)  # before the restarts within _OFTEN_S; a further end is final
_OFTEN_S = 60.0
_TOO_OFTEN = f"for the {len(_PAUSES_S) + 1}th time in {_OFTEN_S:g} s"


class StateInUseError(Exception):
    """Another `headgate dev` runs on the same state folder."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line; `overlay` are sections laid over the sample configuration."""

    state: Path
    overlay: Table
    is_fresh: bool
    is_demo: bool
    is_json: bool
    has_operations: bool = False
    has_jmx: bool = False


def sayer(out: TextIO) -> Say:
    """Return a writer that flushes each line and removes control characters.

    Logs of children hold names that clients chose.
    """

    def say(text: str) -> None:
        out.write(f"{indented(text)}\n")
        out.flush()

    return say


def run_session(
    options: Options, environment: Mapping[str, str], out: TextIO, progress: TextIO
) -> int:
    """Start everything, wait for a signal, stop everything. Returns the exit code."""
    say = sayer(progress)
    with _only_session(options.state):
        for name in Ledger(options.state / "children.json").end_leftovers():
            say(f"ended a leftover of an earlier run: {name}")
        if options.is_fresh:
            _delete_data(options.state)
        find_redis()  # fails before the downloads
        installation = prepare_kafka(environment, say)
        agent = None
        if options.has_jmx:
            agent = ensure_agent(cache_directory(environment), installation.java, say)
        stack = DevStack(installation, options.state, _choose_ports(options.overlay, say), agent)
        stack.write_config(options.overlay, environment, say)
        return _run(stack, options, out, say)


def _run(stack: DevStack, options: Options, out: TextIO, say: Say) -> int:
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    ended: Child | None = None
    try:
        say("starting")
        stack.start_backends(say)
        created = stack.create_topics(say)
        say(f"  topics    {'created ' + ', '.join(created) if created else 'kept'}")
        stack.start_gateway(say)
        operations = stack.start_operations() if options.has_operations else []
        viewer = write_topic_viewer(stack)
        out.write(ready_line(stack) if options.is_json else ready_text(stack, viewer))
        out.flush()
        if operations:
            say(f"operations: {', '.join(operations)}")
        if options.is_demo:
            say(
                f"demo: {POSTS_PER_S:g} sample requests a second; the consumer groups {KEEPS_UP}, "
                f"and {IS_STUCK}, which is stuck"
            )
        ended = asyncio.run(_attend(stack, is_demo=options.is_demo, say=say))
    except KeyboardInterrupt:
        return 0
    finally:
        say("stopping")
        stack.stop()
        say("stopped; nothing is left running")
        if ended:  # the last line, because the end of its log may fill the screen
            say(f"the cause: {ended.end} {_TOO_OFTEN}; its log is {ended.log}")
    return 1 if ended else 0


async def _attend(stack: DevStack, *, is_demo: bool, say: Say) -> Child | None:
    """Wait for a signal, and return None, or for a process that ends too often."""
    stop = asyncio.Event()
    for number in _STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        stopped = group.create_task(stop.wait())
        watches = [group.create_task(_keep_running(stack, name, say)) for name in stack.children]
        tasks: list[asyncio.Task[Any]] = [stopped, *watches]
        if is_demo:
            traffic = post_until_cancelled(stack.gateway_url, random.Random())
            tasks.append(group.create_task(traffic))
            consumers = consume_until_cancelled(stack.ingest.bootstrap, stack.redis.url)
            tasks.append(group.create_task(consumers))
        done, _ = await asyncio.wait([stopped, *watches], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    ended = next((task.result() for task in watches if task in done), None)
    if ended:
        say(f"{ended.end} {_TOO_OFTEN}\n{ended.log_tail()}")
    return ended


async def _keep_running(stack: DevStack, name: str, say: Say) -> Child:
    """Start a process again each time that it ends. Return it when it ends too often."""
    ends: list[float] = []
    child = stack.children[name]
    while True:
        await asyncio.sleep(_WATCH_INTERVAL_S)
        if child.exit_code is None:
            continue
        now = time.monotonic()
        stack.children.pop(name).kill()  # with its children
        ends = [end for end in ends if end > now - _OFTEN_S]
        if len(ends) == len(_PAUSES_S):
            return child
        await asyncio.sleep(_PAUSES_S[len(ends)])
        ends.append(now)
        ended, child = child, stack.spawn(name)
        if await _is_ready_again(stack, name, child, say):
            say(
                f"{ended.end}, started again after {time.monotonic() - now:.1f} s (pid {child.pid})"
            )
        else:
            say(f"{ended.end}; its successor ended before it was ready")


async def _is_ready_again(stack: DevStack, name: str, child: Child, say: Say) -> bool:
    """Wait until a process is ready; return False if it ends before that."""
    noted = time.monotonic()
    while child.exit_code is None:
        if await asyncio.to_thread(stack.is_ready, name):
            return True
        if time.monotonic() > noted + _STILL_S:
            noted = time.monotonic()
            say(f"  waiting for {child.name} to be ready again; its log is {child.log}")
        await asyncio.sleep(_WATCH_INTERVAL_S)
    return False


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
    """Return the addresses of everything, and two commands to try.

    Args:
        stack: The running stack.
        viewer: The script of `write_topic_viewer`.
    """
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
  pids        {", ".join(f"{name} {child.pid}" for name, child in stack.children.items())}
              (kill one: it is started again)

Post an event (the second time it is answered "unchanged"):
  {curl}
See it in Kafka, with partition, offset, key and headers (Ctrl-C ends it):
  {viewer} deals
"""


def write_topic_viewer(stack: DevStack) -> Path:
    """Write the script that prints a topic's records with the Java console consumer.

    The consumer would wait for an unknown topic without an end, so the script looks for it first.
    """
    script = stack.state / "show-topic"
    server = f"--bootstrap-server {stack.ingest.bootstrap}"
    listing = f"{shlex.join(stack.installation.command(_TOPIC_COMMAND))} {server} --list"
    configured = " ".join(name for name in stack.config["topics"] if "*" not in name)
    check = _UNKNOWN_TOPIC.replace("@CONFIGURED@", configured).replace("@LIST@", listing)
    words = [shlex.join(stack.installation.command(_CONSOLE_CONSUMER))]
    words += [f"{server} --from-beginning"]
    words += [f"--formatter-property print.{part}=true" for part in _SHOWN_OF_A_RECORD]
    words += ['--topic "$topic"', '"${@:2}"']
    script.write_text(f"#!/usr/bin/env bash\n{check}exec " + " \\\n  ".join(words) + "\n")
    script.chmod(0o755)
    return script


def _with_children(child: Child) -> list[int]:
    listed = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    try:
        return [child.pid, *map(int, listed.read_text().split())]
    except FileNotFoundError:
        return [child.pid]


@contextmanager
def _only_session(state: Path) -> Iterator[None]:
    state.mkdir(parents=True, exist_ok=True)
    with (state / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateInUseError(
                f"another `headgate dev` runs on {state}: stop it, or use --state DIR"
            ) from error
        yield


def _delete_data(state: Path) -> None:
    # Only these names: the user chose the folder, and it may hold other files.
    for name in _DATA:
        path = state / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _choose_ports(overlay: Table, say: Say) -> Ports:
    """Return the ports of the user's configuration, and free ones for all else.

    Raises:
        StartError: Another program has a port of the configuration.
    """
    options = {name: option_of(overlay, path) for name, path in CHOSEN_PORTS.items()}
    wanted = {name: port for name, port in options.items() if isinstance(port, int) and port}
    chosen: dict[str, int] = {}
    for name, port in wanted.items():
        if prefer(port) != port:
            option = ".".join(CHOSEN_PORTS[name])
            raise StartError(
                f"{option}: port {port} is taken: end the program that uses it, or choose another "
                "port"
            )
        chosen[name] = port
    for name, port in PREFERRED._asdict().items():
        if name not in chosen:
            chosen[name] = prefer(port, chosen.values())
            if chosen[name] != port:
                say(f"port {port} is taken: {name} uses {chosen[name]}")
    return Ports(**chosen)
