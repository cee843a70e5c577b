"""Pages of the control plane as JSON, indented where `?pretty` asks for it."""

import orjson
from aiohttp import web

from headgate.core.http.request import read_flag
from headgate.core.terminal.text import escaped


def json_page(request: web.Request, page: object, status: int = 200) -> web.Response:
    """An answer."""
    pretty = orjson.OPT_INDENT_2 if is_pretty(request) else 0
    body = escaped(orjson.dumps(page, option=pretty).decode()).encode() + b"\n"
    return web.Response(body=body, status=status, content_type="application/json")


def is_pretty(request: web.Request) -> bool:
    """Whether the page is for people. Raises Refused (malformed)."""
    return is_set(request, "pretty")


def is_set(request: web.Request, name: str) -> bool:
    """A flag of the query; `?NAME` alone says yes. Raises Refused (malformed)."""
    given = request.query.get(name)
    if not given:
        return given is not None
    return read_flag(name, given.encode("utf-8", "replace"))
