"""`python -m headgate.devstack`: prepares Kafka and finds Redis for `make setup-run`."""

from __future__ import annotations

import os
import sys

from headgate.devstack.installation import prepare_kafka
from headgate.devstack.jars import JarsError
from headgate.devstack.java import JavaMissingError
from headgate.devstack.redis import RedisMissingError, find_redis


def main() -> int:
    """Return 0 when everything is there, 1 with a sentence when it cannot be had."""
    try:
        installation = prepare_kafka(os.environ, say)
        redis = find_redis()
    except (JavaMissingError, JarsError, RedisMissingError) as missing:
        say(f"error: {missing}")
        return 1
    except KeyboardInterrupt:
        say("interrupted: the next `make setup` goes on")
        return 1
    say(f"ready: {len(installation.jars)} Kafka jars, {redis}")
    return 0


def say(line: str) -> None:
    """Show progress at once."""
    sys.stderr.write(f"setup: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
