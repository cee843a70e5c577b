"""Where the programs of the shop find what they talk to: one file, which `examples.shop` writes."""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

STATE = Path(".shop")  # the folder for data, logs and this file
FILE = "where.json"


@dataclass(frozen=True, slots=True)
class Where:
    """gateway, management, redis: URLs.  ingest, backfill: of the Kafka tiers.

    database: SQLAlchemy's.

    port: of the web page.
    """

    gateway: str
    management: str
    ingest: str
    backfill: str
    redis: str
    database: str
    port: int

    def write(self, file: Path) -> None:
        """Keep it for programs that are started later."""
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")


def add_where(parser: argparse.ArgumentParser) -> None:
    """Declare the option that `read_where` reads."""
    default = STATE / FILE
    text = f"JSON with the addresses of everything; default: {default}"
    parser.add_argument("--where", type=Path, default=default, metavar="F", help=text)


def read_where(args: argparse.Namespace) -> Where:
    """Return what the file says, or end the program with what to do."""
    try:
        return Where(**json.loads(args.where.read_text()))
    except FileNotFoundError:
        sys.exit(f"{args.where} is not there: start `python -m examples.shop`, or name it: --where")
    except (TypeError, ValueError) as error:
        sys.exit(f"--where {args.where}: {error}")
