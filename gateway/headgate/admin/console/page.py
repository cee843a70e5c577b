"""Building blocks of the console's pages: page, list, and the same request for a shell."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from aiohttp import web
from yarl import URL

from headgate.admin.requests import Form
from headgate.edge.auth import Identity


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


# ---- commands to paste into a shell


_TOKEN = '-H "Authorization: Bearer $HEADGATE_TOKEN"'  # where commands of headgate look for it


class Commands(NamedTuple):
    """base: where the reader has the control plane.  has_token: whether it asks for one."""

    base: str
    has_token: bool

    @classmethod
    def of(cls, request: web.Request) -> "Commands":
        """For who asks."""
        has_token = "Authorization" in request.headers
        return cls(f"{request.scheme}://{request.host}", has_token)

    def curl(self, path: str, method: str = "GET", body: Any = None) -> str:
        """A request. body: sent as JSON; None: without one."""
        words = ["curl", "-s"] if method == "GET" else ["curl", "-X", method]
        words += [_TOKEN] if self.has_token else []
        words.append(shlex.quote(self.base + path))
        if body is not None:
            text = orjson.dumps(body).decode()
            words += ["-H", shlex.quote("Content-Type: application/json"), "-d", shlex.quote(text)]
        return " ".join(words)

    def headgate(self, *words: str) -> str:
        """A command that is a client of the control plane."""
        return shlex.join(["headgate", *words, "--url", self.base])


# ---- tables, sorted, searched and paged by the query


PAGE = 50  # rows

Column = Callable[[Any], Any]


class Listing(NamedTuple):
    """rows: of this page.  total: of all that match.  kept: what a search keeps of the address."""

    rows: Sequence[Any]
    total: int
    page: int
    pages: int
    sort: str
    is_descending: bool
    query: str
    url: URL
    kept: Sequence[tuple[str, str]] = ()

    def at(self, page: int) -> str:
        """Another page's address."""
        return str(self.url.update_query(page=str(page)))

    def chosen(self, name: str, value: str = "") -> str:
        """The address of the same list by another choice, from its first page on. value: empty =
        without one."""
        url = self.url.without_query_params(name, "page")
        return str(url.extend_query({name: value}) if value else url)

    def sorted_by(self, column: str) -> str:
        """The address of the list by this column; the other way round where it is so already."""
        is_same = column == self.sort
        order = "asc" if is_same and self.is_descending else "desc"
        if not is_same and column == "name":
            order = "asc"
        return str(self.url.update_query(sort=column, order=order, page="1"))


def listed(
    request: web.Request,
    rows: Mapping[str, Any],
    columns: Mapping[str, Column],
    default: str,
    kept: Sequence[str] = (),
    words: Callable[[Any], str] | None = None,
) -> Listing:
    """rows: by name.  columns: what `?sort=` may say, beside `name`.  words: of a row, which `?q=`
    searches; None = its name."""
    asked = request.query
    query = asked.get("q", "").strip()[:200]
    sort = asked.get("sort", default)
    if sort not in columns:
        sort = "name" if sort == "name" else default
    is_descending = asked.get("order", "asc" if sort == "name" else "desc") != "asc"
    wanted = query.casefold()
    found = [
        (name, row)
        for name, row in rows.items()
        if not wanted or wanted in (name if words is None else words(row)).casefold()
    ]
    found.sort(key=lambda one: one[0])
    if sort == "name":
        found = found[::-1] if is_descending else found
    else:
        value = columns[sort]
        found.sort(key=lambda one: value(one[1]), reverse=is_descending)
    pages = max(1, -(-len(found) // PAGE))
    page = min(pages, _number(asked.get("page", "1")))
    url = request.rel_url.with_query([pair for pair in asked.items() if pair[0] != "live"])
    return Listing(
        found[(page - 1) * PAGE : page * PAGE],
        len(found),
        page,
        pages,
        sort,
        is_descending,
        query,
        url,
        [(name, asked[name]) for name in ("order", *kept) if name in asked],
    )


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) < 7
    return max(1, int(text)) if is_number else 1
