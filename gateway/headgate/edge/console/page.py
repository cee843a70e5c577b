"""What a page is before it is HTML, and what it may ask for."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from aiohttp import web

from headgate.edge.auth import Identity
from headgate.edge.management.bodies import Form


class Page(NamedTuple):
    """template: its file.  is_live: whether its block `live` is sent again and again."""

    template: str
    title: str
    values: Mapping[str, Any]
    status: int = 200
    is_live: bool = False


class Done(NamedTuple):
    """A form was carried out. shown_at: the address of the page that shows what became of it."""

    shown_at: str


Build = Callable[[web.Request, Identity], Awaitable[Page]]
Act = Callable[[web.Request, Form], Awaitable[Page | Done]]
