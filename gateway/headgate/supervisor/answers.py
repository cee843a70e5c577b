"""Bounded reads of other servers' responses."""

import aiohttp


class TooMuchError(ValueError):
    """A response that exceeds its size limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"its answer is larger than {max_bytes:,} bytes")


async def whole(answer: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Return the body of a response.

    Raises:
        TooMuchError: The body is larger than `max_bytes`.
        aiohttp.ClientPayloadError: The body ends too early.
    """
    chunks: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():  # one read returns only the buffered bytes
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise TooMuchError(max_bytes)
    return b"".join(chunks)
