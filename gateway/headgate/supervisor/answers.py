"""Answers that the parent asks other servers for: read whole, and no more than a limit."""

import aiohttp


class TooMuchError(ValueError):
    """An answer is larger than it may be."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"its answer is larger than {max_bytes:,} bytes")


async def whole(answer: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The body. Raises TooMuchError, and aiohttp.ClientPayloadError where it ends too early."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():  # a single read gives what is there by then
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise TooMuchError(max_bytes)
    return b"".join(chunks)
