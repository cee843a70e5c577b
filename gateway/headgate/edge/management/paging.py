"""Lists of the control plane come in pages: `limit` rows, behind the place that `after` names."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from aiohttp import web

from headgate.core.refusal import Refused, malformed

LIMIT = 100  # where the request asks for none
MAX_LIMIT = 1000

Row = TypeVar("Row")


class Paging(NamedTuple):
    """What a request asks for. after: `next` of the page before; None = the first page."""

    limit: int
    after: str | None


def paging(request: web.Request) -> Paging:
    """Raises Refused (malformed)."""
    given = request.query.get("limit", str(LIMIT))
    is_number = given.isascii() and given.isdecimal() and len(given) <= len(str(MAX_LIMIT))
    if not is_number or not 1 <= int(given) <= MAX_LIMIT:
        raise Refused(malformed(f"limit is a number from 1 to {MAX_LIMIT}"))
    return Paging(int(given), request.query.get("after"))


def page_of(
    rows: Sequence[Row],
    wanted: Paging,
    place: Callable[[Row], Any],
    read: Callable[[str], Any],
    text: Callable[[Any], str],
) -> tuple[list[Row], str | None]:
    """The rows of the page, and `next`, which is None on the last one. Raises Refused.

    rows: all, by place.  place: a row's; `text` and `read` make it into `next` and back (None =
    not one of ours). It is no count, so rows that come and go shift no others to another page.
    """
    left = rows
    if wanted.after is not None:
        after = read(wanted.after)
        if after is None:
            raise Refused(malformed("after is `next` of the page before"))
        left = rows[bisect_right(rows, after, key=place) :]
    page = list(left[: wanted.limit])
    return page, text(place(page[-1])) if len(left) > len(page) else None


def names_of(names: Sequence[str], wanted: Paging) -> tuple[list[str], str | None]:
    """The same of a list by name, where `next` is the last name of the page."""
    return page_of(names, wanted, str, str, str)


def listed(section: str, rows: Sequence[Any], following: str | None) -> dict[str, Any]:
    """The answer."""
    return {section: rows, "next": following}
