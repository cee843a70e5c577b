"""/metrics of any process: Prometheus' plain text, or OpenMetrics for who prefers that."""

import time

from aiohttp import web

from headgate.metrics.exposition import (
    CONTENT_TYPE,
    OPENMETRICS_CONTENT_TYPE,
    render,
    render_openmetrics,
)
from headgate.metrics.snapshot import Snapshot

_OPENMETRICS, _PLAIN = "application/openmetrics-text", "text/plain"


def metrics_page(request: web.Request, snapshot: Snapshot) -> web.Response:
    """The figures, in the format that the request's Accept header asks for."""
    accept = ",".join(request.headers.getall("Accept", ()))
    now = time.time()
    if prefers_openmetrics(accept):
        body, content_type = render_openmetrics(snapshot, now), OPENMETRICS_CONTENT_TYPE
    else:
        body, content_type = render(snapshot, now), CONTENT_TYPE
    return web.Response(body=body, headers={"Content-Type": content_type, "Vary": "Accept"})


def prefers_openmetrics(accept: str) -> bool:
    """Whether it is named, and plain text is not preferred."""
    qualities = {_OPENMETRICS: 0.0, _PLAIN: 0.0}
    for one in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in one.split(";"))
        if kind in qualities:
            qualities[kind] = max(qualities[kind], _quality(parameters))
    return qualities[_OPENMETRICS] > 0 and qualities[_OPENMETRICS] >= qualities[_PLAIN]


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
