"""Problem documents (RFC 9457) as responses, and the pages that their `type` points to."""

import re
from html import escape
from http import HTTPStatus

from aiohttp import web

from headgate.model.outcome import TRAITS, Failure, Reason
from headgate.model.reply import Reply, problem

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse}}td,th{{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}}
code{{background:#eee;padding:0 .2em}}</style></head><body>
{body}
</body></html>
"""


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
