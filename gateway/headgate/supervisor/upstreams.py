"""Clients of the other servers whose data the management pages show: Prometheus and the monitor."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import aiohttp
import orjson

from headgate.admin.console.figures import Plots, Recorded
from headgate.admin.instance import Monitored
from headgate.config import Settings
from headgate.config.settings import ConsoleSettings
from headgate.errors_in_words import cause, connection_error, is_untrusted
from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.metrics.fleet import Points, Recorder
from headgate.metrics.snapshot import Labels
from headgate.model.cache import BoundedCache
from headgate.model.outcome import Failure, Reason
from headgate.model.text import masked
from headgate.model.times import Outage

log = logging.getLogger("headgate.supervisor")

# ---- bounded reads of responses


class TooMuchError(ValueError):
    """A response that exceeds its size limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"its answer is larger than {max_bytes:,} bytes")


async def read_body(answer: aiohttp.ClientResponse, max_bytes: int) -> bytes:
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


# ---- the console's plots from Prometheus

_SPAN_S = 21_600.0  # default time span of a plot
_STEPS = 240  # points of a plot
_LEAST_STEP_S = 15.0  # Prometheus scrapes about as often
_SCRAPES = 4  # minimum for a rate
_TIMEOUT_S = 2.0  # limit of a response and its processing: a page waits for it
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)  # _TIMEOUT_S covers it
_AWAY_S = 30.0  # pause after a failed request
_FRESH_S = 10.0
_KNOWN = 256  # responses that are cached for so long
_MAX_BYTES = 16_777_216
_MAX_SAID = 200  # characters of Prometheus' error text


class Query(NamedTuple):
    """A query for Prometheus.

    Attributes:
        text: The query in PromQL.
        labels: Names of the labels, in the order of the rows.
    """

    text: str
    labels: tuple[str, ...]


class NoFiguresError(Exception):
    """A response of Prometheus without figures; the text, with `Prometheus` before it, says why."""


class PrometheusPlots:
    """Implementation of `Plots` by Prometheus.

    Args:
        url: Base URL of Prometheus.
        kept: Plots of this process' own figures.
        max_bytes: Size limit of a response.
    """

    def __init__(self, url: str, kept: Plots, max_bytes: int = _MAX_BYTES) -> None:
        self._url = url.rstrip("/") + "/api/v1/query_range"
        self._kept = kept
        self._max_bytes = max_bytes
        self._away_until = 0.0  # monotonic seconds
        self._trouble = ""
        self._answers = BoundedCache[tuple[Query, float], tuple[float, Points]](_KNOWN)

    @property
    def source(self) -> str:
        if time.monotonic() < self._away_until:
            return f"{self._kept.source} (Prometheus {self._trouble})"
        return "Prometheus"

    async def read(
        self,
        metric: str,
        by: Collection[int] = (),
        where: Mapping[int, Collection[str]] | None = None,
        span_s: float | None = None,
    ) -> Points:
        """Return the points of all gateways that Prometheus scrapes; see `History.read`."""
        span = span_s or _SPAN_S
        step = max(_LEAST_STEP_S, span / _STEPS)
        key, now = (query(metric, by, where or {}, step), span), time.monotonic()
        cached = self._answers.get(key)
        if cached is not None and now - cached[0] < _FRESH_S:
            return cached[1]
        points = None if now < self._away_until else await self._ask(key[0], span, step)
        if points is None:
            return await self._kept.read(metric, by, where, span_s)
        return self._answers.put(key, (now, points))[1]

    async def _ask(self, wanted: Query, span: float, step: float) -> Points | None:
        end = math.floor(time.time() / step) * step
        start = end - math.floor(span / step) * step
        form = {"query": wanted.text, "start": f"{start:f}", "end": f"{end:f}", "step": f"{step:f}"}
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                body = await self._posted(form)
                # a large answer takes a second to read
                return await asyncio.to_thread(read_answer, body, wanted, Grid(start, end, step))
        except NoFiguresError as error:
            self._trouble = str(error)
        except TimeoutError:
            self._trouble = f"did not answer within {_TIMEOUT_S:g} s"
        except aiohttp.ClientPayloadError:
            self._trouble = "broke off in the middle of its answer"
        except TooMuchError as error:
            self._trouble = f"was not read: {error}"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._trouble = f"cannot be reached: {error}"
        self._away_until = time.monotonic() + _AWAY_S
        log.warning("Prometheus at %s %s", masked(self._url), self._trouble)
        return None

    async def _posted(self, form: Mapping[str, str]) -> bytes:
        async with (
            aiohttp.ClientSession(timeout=_NO_TIMEOUT) as session,
            session.post(self._url, data=form, allow_redirects=False) as answer,
        ):
            body = await read_body(answer, self._max_bytes)
            if answer.status != 200:
                raise NoFiguresError(f"answered {answer.status}{_said(body)}")
            return body


def plots_of(settings: ConsoleSettings, history: Recorder) -> Plots:
    """Return the plots that the settings ask for."""
    kept = Recorded(history)
    return (
        kept if settings.prometheus_url is None else PrometheusPlots(settings.prometheus_url, kept)
    )


def query(
    metric: str, by: Collection[int], where: Mapping[int, Collection[str]], step_s: float
) -> Query:
    """Return the query that corresponds to the arguments of `History.read`."""
    declared = METRICS[metric.removesuffix("_sum")]
    names = tuple(declared.labels[position] for position in by)
    chosen = [
        f'{declared.labels[position]}=~"{"|".join(map(_quoted, sorted(values)))}"'
        for position, values in where.items()
    ]
    series = metric + ("{" + ",".join(chosen) + "}" if chosen else "")
    if declared.kind in (MetricKind.COUNTER, MetricKind.HISTOGRAM):
        series = f"rate({series}[{max(step_s, _SCRAPES * _LEAST_STEP_S):.0f}s])"
    grouped = f" by ({','.join(names)})" if names else ""
    return Query(f"sum{grouped} ({series})", names)


def _quoted(value: str) -> str:
    """Escape any text for a regular expression (RE2) in PromQL's quotes."""
    plain = "".join(
        character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in value
    )
    return plain.replace("\\", "\\\\")


class Grid(NamedTuple):
    """The requested times, in seconds since 1970. The end is the last of them."""

    start: float
    end: float
    step: float


def read_answer(body: bytes, wanted: Query, grid: Grid) -> Points:
    """Return the points in a response; for a thread.

    Raises:
        NoFiguresError: The response makes no sense.
    """
    try:
        return _points(orjson.loads(body), wanted, grid)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = _said(body) or ": it is no answer to query_range"
        raise NoFiguresError(f"answered nonsense{why}") from error


def _said(body: bytes) -> str:
    """Return the error text of a response, after a colon; empty if there is none."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    said = document.get("error") if isinstance(document, dict) else None
    return f": {said[:_MAX_SAID]}" if isinstance(said, str) and said else ""


def _points(answer: Any, wanted: Query, grid: Grid) -> Points:
    start, end, step = grid
    count = round((end - start) / step) + 1
    rows: dict[Labels, list[float]] = {}
    for series in answer["data"]["result"]:
        labels = tuple(str(series["metric"].get(name, "")) for name in wanted.labels)
        row = rows.setdefault(labels, [0.0] * count)
        for at, text in series["values"]:
            position, value = round((at - start) / step), float(text)
            if 0 <= position < count and math.isfinite(value):
                row[position] = value
    return Points(start, step, {labels: row for labels, row in rows.items() if any(row)})


# ---- the monitor

_SILENCE_S = 3.0  # longest wait for the monitor's first or next bytes
# `headgate top` waits 10 s for the gateway
_MONITOR_TIMEOUT = aiohttp.ClientTimeout(total=8, sock_connect=_SILENCE_S, sock_read=_SILENCE_S)
_MAX_MONITOR_BYTES = 67_108_864  # a group of ten thousand partitions has some 20 MB
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def monitor_url(settings: Settings) -> str:
    """Return the URL of the monitor."""
    if settings.monitor.url is not None:
        return settings.monitor.url.rstrip("/")
    host = _ANYWHERE.get(settings.http.host, settings.http.host)
    scheme = "http" if settings.http.tls_cert_file is None else "https"
    return f"{scheme}://{host}:{settings.monitor.port}"


def _no_monitor(error: BaseException) -> str:
    """Return why the monitor does not answer, and the fix, without its address."""
    if is_untrusted(error):
        return (
            f"the gateway cannot use the monitor's TLS: {cause(error)}. Start the gateway with "
            "SSL_CERT_FILE, the file of the authority that issued the certificate, or set "
            "monitor.url to a name in the certificate"
        )
    if isinstance(error, TimeoutError):
        return (
            "the monitor did not answer in time: see its log, restart it if it hangs, or correct "
            "monitor.url"
        )
    why = cause(error)
    return (
        f"no monitor answers{why and f' ({why})'}: start `headgate monitor` with this "
        "configuration, or set monitor.url"
    )


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
                aiohttp.ClientSession(timeout=_MONITOR_TIMEOUT) as session,
                session.get(url + path, headers=headers, allow_redirects=False) as answer,
            ):
                monitored = Monitored(
                    answer.status, answer.content_type, await read_body(answer, _MAX_MONITOR_BYTES)
                )
        except (TooMuchError, aiohttp.ClientPayloadError) as error:
            log.warning(
                "response of the monitor at %s cannot be used: %s",
                masked(url),
                connection_error(error),
            )
            return Failure(Reason.INTERNAL, f"the answer of the monitor cannot be used: {error}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if self._outage.begins():  # a live page sends a request every few seconds
                log.warning("no monitor answers at %s: %s", masked(url), connection_error(error))
            return Failure(Reason.MONITOR_UNAVAILABLE, _no_monitor(error))
        away_s = self._outage.ends()
        if away_s is not None:
            log.info("monitor at %s answers", masked(url), extra={"away_s": away_s})
        return monitored
