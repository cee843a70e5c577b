"""Building blocks of the console's pages: pages, lists, and commands for a shell."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from aiohttp import web
from yarl import URL

from headgate.admin.requests import Form
from headgate.http.auth import Identity
from headgate.model.text import natural_number


class Page(NamedTuple):
    """A page to render.

    Attributes:
        template: File of the template.
        title: Title of the page.
        values: Values for the template.
        status: HTTP status of the response.
        is_live: Whether updates of its block `live` are streamed.
    """

    template: str
    title: str
    values: Mapping[str, Any]
    status: int = 200
    is_live: bool = False


class Done(NamedTuple):
    """Result of a form that succeeded. `shown_at` is the URL of the page with the result."""

    shown_at: str


Build = Callable[[web.Request, Identity], Awaitable[Page]]
Act = Callable[[web.Request, Form], Awaitable[Page | Done]]


# ---- commands to paste into a shell


_TOKEN = '-H "Authorization: Bearer $HEADGATE_TOKEN"'  # the variable that headgate reads too


class Commands(NamedTuple):
    """Commands for the reader's shell.

    Attributes:
        base: URL of the control plane as the reader uses it.
        has_token: Whether the control plane needs a token.
    """

    base: str
    has_token: bool

    @classmethod
    def from_request(cls, request: web.Request) -> "Commands":
        """Return the commands for the sender of a request."""
        has_token = "Authorization" in request.headers
        return cls(f"{request.scheme}://{request.host}", has_token)

    def curl(self, path: str, method: str = "GET", body: Any = None) -> str:
        """Return a curl command. `body` is sent as JSON; None: no body."""
        words = ["curl", "-s"] if method == "GET" else ["curl", "-X", method]
        words += [_TOKEN] if self.has_token else []
        words.append(shlex.quote(self.base + path))
        if body is not None:
            text = orjson.dumps(body).decode()
            words += ["-H", shlex.quote("Content-Type: application/json"), "-d", shlex.quote(text)]
        return " ".join(words)

    def headgate(self, *words: str) -> str:
        """Return a `headgate` command that calls the control plane."""
        return shlex.join(["headgate", *words, "--url", self.base])


# ---- tables, sorted, searched and paged by the query


PAGE = 50  # rows

Column = Callable[[Any], Any]


class Listing(NamedTuple):
    """One page of a list.

    Attributes:
        rows: Rows of this page.
        total: Number of all rows that match.
        kept: Query parameters that a search keeps.
    """

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
        """Return the URL of another page."""
        return str(self.url.update_query(page=str(page)))

    def chosen(self, name: str, value: str = "") -> str:
        """Return the URL of the first page with another filter; an empty value removes it."""
        url = self.url.without_query_params(name, "page")
        return str(url.extend_query({name: value}) if value else url)

    def sorted_by(self, column: str) -> str:
        """Return the URL of the list sorted by a column; reversed if it is already sorted so."""
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
    """Return the requested page of a list.

    Args:
        request: Request with sort, order, page and search in its query.
        rows: Rows by name.
        columns: Sort keys by column, for `?sort=`; `name` is always allowed.
        default: Column of the default order.
        kept: Query parameters that a search keeps.
        words: Returns the text of a row for `?q=`; None: its name.
    """
    given = request.query
    query = given.get("q", "").strip()[:200]
    sort = given.get("sort", default)
    if sort not in columns:
        sort = "name" if sort == "name" else default
    is_descending = given.get("order", "asc" if sort == "name" else "desc") != "asc"
    wanted = query.casefold()
    matches = [
        (name, row)
        for name, row in rows.items()
        if not wanted or wanted in (name if words is None else words(row)).casefold()
    ]
    matches.sort(key=lambda match: match[0])
    if sort == "name":
        matches = matches[::-1] if is_descending else matches
    else:
        value = columns[sort]
        matches.sort(key=lambda match: value(match[1]), reverse=is_descending)
    pages = max(1, -(-len(matches) // PAGE))
    page = min(pages, max(1, natural_number(given.get("page", "1"), 6) or 1))
    url = request.rel_url.with_query([pair for pair in given.items() if pair[0] != "live"])
    return Listing(
        matches[(page - 1) * PAGE : page * PAGE],
        len(matches),
        page,
        pages,
        sort,
        is_descending,
        query,
        url,
        [(name, given[name]) for name in ("order", *kept) if name in given],
    )
