"""/docs: what a port serves, shown by Swagger UI, which lets people try it.

Everything that the page needs comes from here (`static/`): no browser may fetch anything from
elsewhere, or run a script that is not a file of ours.
"""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused
from headgate.core.reply import JSON, Reply
from headgate.edge.problems import response

_STATIC = Path(str(files("headgate.edge.openapi"))) / "static"
_FILES = {
    "page.css": _STATIC / "page.css",
    "page.js": _STATIC / "page.js",
    "swagger-ui-bundle.js": _STATIC / "vendor" / "swagger-ui-bundle.js",
    "swagger-ui.css": _STATIC / "vendor" / "swagger-ui.css",
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_DOCUMENT = "openapi.json"
FILES = (_DOCUMENT, *sorted(_FILES))
# Pictures in Swagger UI's styles are `data:`; what is tried out is asked of this very port.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Documents(NamedTuple):
    """The OpenAPI documents. both: of both ports.  own: of what the port serves."""

    both: Callable[[], bytes]
    own: Callable[[], bytes]


def docs_page() -> web.StreamResponse:
    """The page."""
    built = _file(_STATIC / "docs.html")
    built.headers["Content-Security-Policy"] = POLICY
    return built


def docs_file(name: str, document: Callable[[], bytes]) -> web.StreamResponse:
    """What the page is made of. document: of what this port serves. Raises Refused.

    Files are sent piece by piece: the largest has 1.7 MB, and slow readers must not hold as many.
    """
    if name == _DOCUMENT:
        return response(Reply(200, JSON, (), document()), "")
    if name not in _FILES:
        raise Refused(Failure(Reason.NOT_FOUND, f"no page at /docs/{name[:SHOWN]}"))
    return _file(_FILES[name])


def _file(path: Path) -> web.StreamResponse:
    headers = {
        "Content-Type": f"{_TYPES[path.suffix]}; charset=utf-8",
        "Cache-Control": "no-cache",  # asked for again, and sent if it has changed
        "X-Content-Type-Options": "nosniff",
    }
    return web.FileResponse(path, headers=headers)
