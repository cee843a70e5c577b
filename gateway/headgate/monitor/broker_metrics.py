"""What the brokers' metric exporters say: bytes and records by topic."""

import asyncio
from collections.abc import Sequence

import aiohttp

from headgate.core.groups.rogue_readers import Totals, read_totals
from headgate.core.secrets import masked, without_secrets

_TIMEOUT = aiohttp.ClientTimeout(total=5)


class ScrapeError(Exception):
    """An exporter does not answer, or says nothing of topics; the text says which."""


async def scrape(urls: Sequence[str]) -> dict[str, Totals]:
    """Read all exporters at once, by URL. Raises ScrapeError: a part is no whole."""
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        answers = await asyncio.gather(*(_read(session, url) for url in urls))
    return dict(zip(urls, answers, strict=True))


async def _read(session: aiohttp.ClientSession, url: str) -> Totals:
    try:
        async with session.get(url) as answer:
            answer.raise_for_status()
            return read_totals(await answer.text())
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = without_secrets(str(error))
        raise ScrapeError(f"{masked(url)}: {type(error).__name__}: {why}") from error
