"""A gateway's way to `headgate monitor`: its own /v1/groups are what the monitor says."""

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
    """Where the monitor is."""
    if settings.monitor.url is not None:
        return settings.monitor.url.rstrip("/")
    host = _ANYWHERE.get(settings.http.host, settings.http.host)
    scheme = "http" if settings.http.tls_cert_file is None else "https"
    return f"{scheme}://{host}:{settings.monitor.port}"


class MonitorClient:
    """settings: in force.  clock: monotonic seconds."""

    def __init__(
        self, settings: Callable[[], Settings], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._outage = Outage(clock)

    async def ask(self, path: str, authorization: str | None) -> Monitored | Failure:
        """What the monitor answers; the failure where there is none.

        Asked for by people, so nothing is held open in between. authorization: the caller's own.
        """
        url = monitor_url(self._settings())
        headers = {} if authorization is None else {"Authorization": authorization}
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.get(url + path, headers=headers, allow_redirects=False) as answer,
            ):
                found = Monitored(
                    answer.status, answer.content_type, await whole(answer, _MAX_BYTES)
                )
        except (TooMuchError, aiohttp.ClientPayloadError) as error:
            log.warning("response of the monitor at %s cannot be used: %r", masked(url), error)
            return Failure(Reason.INTERNAL, f"the answer of the monitor cannot be used: {error}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if self._outage.begins():  # a live page asks every few seconds
                log.warning("no monitor answers at %s: %r", masked(url), error)
            detail = (
                "no monitor answers: start `headgate monitor` with this configuration, or set "
                "monitor.url"
            )
            return Failure(Reason.NOT_FOUND, detail)
        away_s = self._outage.ends()
        if away_s is not None:
            log.info("monitor at %s answers", masked(url), extra={"away_s": away_s})
        return found
