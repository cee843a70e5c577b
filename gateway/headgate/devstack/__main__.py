"""`python -m headgate.devstack`: prepares Kafka and finds Redis for `make setup-run`."""

import os
import sys
from collections.abc import Callable

from headgate.devstack.jars import JarsError, setup_step
from headgate.devstack.java import JavaMissingError
from headgate.devstack.servers import RedisMissingError, find_redis, prepare_kafka


def _prepare(say: Callable[[str], None]) -> str:
    installation = prepare_kafka(os.environ, say)
    redis = find_redis()
    return f"{len(installation.jars)} Kafka jars, {redis}"


if __name__ == "__main__":
    sys.exit(setup_step(_prepare, (JavaMissingError, JarsError, RedisMissingError)))
