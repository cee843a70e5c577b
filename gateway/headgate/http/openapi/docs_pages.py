"""Page /docs: the API of a port in Swagger UI, where people can try it.

All files of the page come from `static/`. Its content policy forbids browsers to fetch anything
from other servers, or to run other scripts.
"""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from headgate.http.problems import response
from headgate.model.outcome import SHOWN, Failure, Reason, Refused
from headgate.model.reply import JSON, Reply

_STATIC = Path(str(files("headgate.http.openapi"))) / "static"
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
