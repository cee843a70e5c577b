"""What no answer may show: addresses, and how the gateway is made."""

from __future__ import annotations

import re

from support.clients.http_client import Answer

INTERNAL = re.compile(
    r"""
    \b\d{1,3}(?:\.\d{1,3}){3}\b        # an IPv4 address
    | \[::1?\]
    | \blocalhost\b
    | (?<=[\w.\]]):\d{4,5}\b           # a port
    | \b[a-z]+://(?!gateway/)          # a URL; the clients' own name of the gateway is no secret
    | /(?:tmp|home|var|usr|work)/      # a path of ours
    | Traceback | \bat\ 0x[0-9a-f]+
    | \w(?:Error|Exception)\b          # a class of ours or of a library
    | \bb(?:'|\\")                     # the repr of bytes
    | \bErrno\b | \bcodec\b | \brecursion\b | set_int_max
    | python | aiohttp | aiokafka | redis-py | orjson | msgspec
    """,
    re.VERBOSE | re.IGNORECASE,
)
SERVER_NAMES = ("headgate", None)


def internals_of(answer: Answer) -> list[str]:
    """What an answer gives away in its body and its headers."""
    headers = " ".join(f"{name}: {value}" for name, value in answer.headers.items())
    found = [one.group() for one in INTERNAL.finditer(answer.body.decode("utf-8", "replace"))]
    found += [one.group() for one in re.finditer(r"(?i)python|aiohttp|b'", headers)]
    if answer.headers.get("server") not in SERVER_NAMES:
        found.append(answer.headers["server"])
    return found
