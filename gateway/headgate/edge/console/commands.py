"""The same as a page, or as a form of it, for a shell: fit to be pasted."""

import shlex
from typing import Any, NamedTuple

import orjson
from aiohttp import web

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
