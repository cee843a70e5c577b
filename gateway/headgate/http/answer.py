"""Responses on aiohttp's connections, problem documents, and the pages for people.

aiohttp builds a response field by field and sends it through its writer: 23 % of a single event's
cost (docs/design/measured.md#the-cost-of-http). The gateway's responses to events are complete, so
their bytes go directly to the transport (`answered`). All other responses are aiohttp's
(`response`).
"""

import re
from collections.abc import Callable
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple, cast

from aiohttp import web
from aiohttp.http import HttpVersion11

import headgate
from headgate.http.connection import closing, on_the_wire
from headgate.model.outcome import SHOWN, TRAITS, Failure, Reason, Refused
from headgate.model.reply import JSON, Reply, problem

# With more unsent bytes, the response waits for the reader like aiohttp's writer.
AT_ONCE_BYTES: Final = 65_536


class Answer:
    """A complete HTTP/1.1 response; its connection stays open unless `force_close` is called.

    It has the methods that aiohttp's connection calls, and does not inherit from StreamResponse:
    building one costs more than the whole response.
    """

    def __init__(self, reply: Reply, request_id: str) -> None:
        self.status: Final = reply.status
        self.keep_alive = True
        self._bytes = on_the_wire(reply, request_id)
        self._request: web.BaseRequest | None = None

    def force_close(self) -> None:
        if self.keep_alive:
            self.keep_alive = False
            self._bytes = closing(self._bytes)

    async def prepare(self, request: web.BaseRequest) -> None:
        self._request = request

    async def write_eof(self, data: bytes = b"") -> None:
        request = self._request
        transport = None if request is None else request.transport
        if request is None or transport is None or transport.is_closing():
            raise ConnectionResetError("the client has left")
        transport.write(self._bytes)
        if transport.get_write_buffer_size() > AT_ONCE_BYTES:
            await request.writer.drain()


def response_to(request: web.BaseRequest, reply: Reply, request_id: str) -> web.StreamResponse:
    """Return the reply as the cheapest response that is correct for the request."""
    if (
        request.version == HttpVersion11
        and request.keep_alive
        and request.content.is_eof()  # else the connection closes after the response
        and "Origin" not in request.headers  # `auth.Cors` may add headers
    ):
        return cast(web.StreamResponse, Answer(reply, request_id))
    return response(reply, request_id)


def response(reply: Reply, request_id: str) -> web.Response:
    """Return a reply as a response of aiohttp."""
    built = web.Response(body=reply.body, status=reply.status, content_type=reply.content_type)
    for name, value in reply.headers:
        built.headers[name] = value
    if request_id:  # pages have none
        built.headers["X-Request-Id"] = request_id
    return built


def problem_response(failure: Failure, instance: str) -> web.Response:
    """Return the response for a request that failed as a whole. `instance` is the request id."""
    return response(problem(failure, instance), instance)


# ---- /problems: the pages that the `type` of a problem document (RFC 9457) points to


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse}}td,th{{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}}
code{{background:#eee;padding:0 .2em}}</style></head><body>
{body}
</body></html>
"""


def index_page() -> web.Response:
    """Return the page with all reasons."""
    rows = "".join(
        f'<tr><td>{traits.status}</td><td><a href="/problems/{reason}"><code>{reason}</code></a>'
        f"</td><td>{'yes' if traits.retryable else 'no'}</td><td>{escape(traits.title)}</td></tr>"
        for reason, traits in TRAITS.items()
    )
    body = (
        "<h1>Problems</h1><p>Why an event or a request did not end well.</p><table>"
        f"<tr><th>Status</th><th>Reason</th><th>Retry</th><th>Meaning</th></tr>{rows}</table>"
    )
    return _page("Problems", body)


def problem_page(reason: Reason) -> web.Response:
    """Return the page of one reason: its meaning and the advice for clients."""
    traits = TRAITS[reason]
    retry = (
        "The same event may succeed later: wait for <code>Retry-After</code>, or back off."
        if traits.retryable
        else "Sending the same event again gives the same answer."
    )
    body = (
        f"<h1><code>{reason}</code>: {escape(traits.title)}</h1>"
        f"<p>Status {traits.status} {HTTPStatus(traits.status).phrase}.</p>"
        f"<p>{_with_code(traits.advice)}</p><p>{retry}</p>"
        '<p><a href="/problems">All problems</a></p>'
    )
    return _page(f"{reason}: {traits.title}", body)


def _with_code(text: str) -> str:
    """Return the HTML of a text, with `code` for its parts in backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _page(title: str, body: str) -> web.Response:
    return html_page(_PAGE.format(title=escape(title), body=body))


def html_page(text: str) -> web.Response:
    """Return an HTML page; its content policy forbids all other resources."""
    built = web.Response(text=text, content_type="text/html")
    built.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
    return built


# ---- /docs: the API of a port in Swagger UI, where people can try it
#
# All files of the page come from `openapi/static`. Its content policy forbids browsers to fetch
# anything from other servers, or to run other scripts.


_STATIC = Path(headgate.__file__).parent / "http" / "openapi" / "static"
_FILES = {
    "page.css": _STATIC / "page.css",
    "page.js": _STATIC / "page.js",
    "swagger-ui-bundle.js": _STATIC / "vendor" / "swagger-ui-bundle.js",
    "swagger-ui.css": _STATIC / "vendor" / "swagger-ui.css",
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_DOCUMENT = "openapi.json"
FILES = (_DOCUMENT, *sorted(_FILES))
# Images in Swagger UI's styles are `data:` URLs; requests for trying out go to the same port.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Documents(NamedTuple):
    """OpenAPI documents: `both` describes both ports, `own` the port that serves it."""

    both: Callable[[], bytes]
    own: Callable[[], bytes]


def docs_page() -> web.StreamResponse:
    """Return the page."""
    built = _file(_STATIC / "docs.html")
    built.headers["Content-Security-Policy"] = POLICY
    return built


def docs_file(name: str, document: Callable[[], bytes]) -> web.StreamResponse:
    """Return a file of the page.

    Files are sent in pieces: the largest has 1.7 MB, and slow readers must not hold that much.

    Args:
        name: Name of the file.
        document: Returns the OpenAPI document of this port.

    Raises:
        Refused: There is no such file.
    """
    if name == _DOCUMENT:
        return response(Reply(200, JSON, (), document()), "")
    if name not in _FILES:
        raise Refused(Failure(Reason.NOT_FOUND, f"no page at /docs/{name[:SHOWN]}"))
    return _file(_FILES[name])


def _file(path: Path) -> web.StreamResponse:
    headers = {
        "Content-Type": f"{_TYPES[path.suffix]}; charset=utf-8",
        "Cache-Control": "no-cache",  # browsers ask again; it is sent only if it has changed
        "X-Content-Type-Options": "nosniff",
    }
    return web.FileResponse(path, headers=headers)
