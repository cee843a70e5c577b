"""Cross-origin requests of browsers (the Fetch standard, section 3.2), off unless configured."""

from collections.abc import Iterable, Mapping
from typing import Final

from aiohttp import web

# What an answer that is a stream must take itself, since afterwards it is too late.
CORS_HEADERS: Final = web.RequestKey("cors", dict[str, str])

_ANY = "*"
_EXPOSED = (
    "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed, "
    "Idempotency-Bypassed"
)
_MAX_AGE_S = 600


class Cors:
    """origins: as browsers send them (`https://app.example`), or `*` for all."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.lower() for origin in origins)

    @property
    def is_on(self) -> bool:
        """Whether any origin is let in."""
        return bool(self._origins)

    def headers(self, request: Mapping[str, str]) -> dict[str, str]:
        """What any answer to this request carries. request: its headers."""
        origin = request.get("Origin")
        if origin is None or not self._origins:
            return {}
        if _ANY in self._origins:
            return {"Access-Control-Allow-Origin": _ANY, "Access-Control-Expose-Headers": _EXPOSED}
        if origin.lower() not in self._origins:
            return {"Vary": "Origin"}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": _EXPOSED,
            "Vary": "Origin",
        }

    def preflight(self, request: Mapping[str, str], methods: str) -> dict[str, str]:
        """What the answer to OPTIONS carries as well. methods: those of the path."""
        if "Access-Control-Allow-Origin" not in self.headers(request):
            return {}
        asked = request.get("Access-Control-Request-Headers", "")
        return {
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": asked or _ANY,
            "Access-Control-Max-Age": str(_MAX_AGE_S),
        }
