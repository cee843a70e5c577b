"""What cannot be answered becomes a refusal that says why and what to do."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from headgate.backends.kafka.in_words import kafka_in_words
from headgate.backends.kafka.producing.transactions import TransactionError
from headgate.backends.kafka.topic_reader import READ_ERRORS
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.limits import replay_request
from headgate.core.refusal import Refused
from headgate.core.replays.fields import FieldError
from headgate.core.replays.offset_map import NewerMapError
from headgate.core.replays.replay import TooLargeError

log = logging.getLogger("headgate.replays.asked")

_ANSWER_S = 45.0  # a transaction of a runner that died is aborted after 30 s


@asynccontextmanager
async def asking(cluster: str) -> AsyncIterator[None]:
    """Bound what is asked of a cluster. Raises Refused."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            yield
    except (*READ_ERRORS, TransactionError) as error:
        log.warning("cluster %s does not answer: %r", cluster, error)
        cause = error.__cause__ or error if isinstance(error, TransactionError) else error
        detail = f"cluster {cluster} does not answer: {kafka_in_words(cause)}"
        raise Refused(Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=5)) from error
    except NewerMapError as error:
        log.warning("%s", error)
        raise Refused(Failure(Reason.NOT_COVERED, str(error))) from error
    except TooLargeError as error:
        raise Refused(replay_request(str(error))) from error


@contextmanager
def reading() -> Iterator[None]:
    """Around what reads a request's JSON. Raises Refused."""
    try:
        yield
    except FieldError as error:
        figures = {"field": error.field} if error.field else None
        raise Refused(Failure(Reason.MALFORMED, str(error), figures)) from error
