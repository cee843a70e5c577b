"""The gateway's client of `headgate monitor`: /v1/groups returns the monitor's responses."""

import logging
import time
from collections.abc import Callable

import aiohttp

from headgate.admin.instance import Monitored
from headgate.config import Settings
from headgate.core.outage import Outage
from headgate.core.outcome import Failure, Reason
from headgate.core.secrets import masked
from headgate.supervisor.answers import TooMuchError, whole

log = logging.getLogger("headgate.monitor_client")

_TIMEOUT = aiohttp.ClientTimeout(total=10)
_MAX_BYTES = 67_108_864  # a group of ten thousand partitions has some 20 MB
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def monitor_url(settings: Settings) -> str:
    """Return the URL of the monitor."""
    if settings.monitor.url is not None:
        return settings.monitor.url.rstrip("/")
    host = _ANYWHERE.get(settings.http.host, settings.http.host)
    scheme = "http" if settings.http.tls_cert_file is None else "https"
    return f"{scheme}://{host}:{settings.monitor.port}"


class MonitorClient:
    """A client of the monitor.

    Args:
        settings: Returns the active settings.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self, settings: Callable[[], Settings], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._outage = Outage(clock)

    async def ask(self, path: str, authorization: str | None) -> Monitored | Failure:
        """Return the monitor's response, or the failure if there is none.

        Requests are rare and come from people, so no connection stays open.

        Args:
            path: Path of the page.
            authorization: The caller's own Authorization header.
        """
        url = monitor_url(self._settings())
        headers = {} if authorization is None else {"Authorization": authorization}
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.get(url + path, headers=headers, allow_redirects=False) as answer,
            ):
                monitored = Monitored(
                    answer.status, answer.content_type, await whole(answer, _MAX_BYTES)
                )
        except (TooMuchError, aiohttp.ClientPayloadError) as error:
            log.warning("response of the monitor at %s cannot be used: %r", masked(url), error)
            return Failure(Reason.INTERNAL, f"the answer of the monitor cannot be used: {error}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if self._outage.begins():  # a live page sends a request every few seconds
                log.warning("no monitor answers at %s: %r", masked(url), error)
            detail = (
                "no monitor answers: start `headgate monitor` with this configuration, or set "
                "monitor.url"
            )
            return Failure(Reason.NOT_FOUND, detail)
        away_s = self._outage.ends()
        if away_s is not None:
            log.info("monitor at %s answers", masked(url), extra={"away_s": away_s})
        return monitored
