"""Client of the monitor for the management pages: responses to a caller, cached for seconds."""

import time
from typing import Any
from urllib.parse import urlencode

import orjson
from aiohttp import web

from headgate.admin.instance import Instance, Monitored
from headgate.model.cache import BoundedCache
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.text import path_segment

_FRESH_S = 5.0  # the monitor polls Kafka every 10 s
_KNOWN = 64  # responses that are cached for that time
_LIMIT, _PAGES = 1000, 5  # groups in a response of the monitor, and responses that are read
READERS = 50  # of a partition, the worst first
_BY_STATUS = {
    401: Reason.UNAUTHENTICATED,
    403: Reason.FORBIDDEN,
    404: Reason.NOT_FOUND,
    503: Reason.OVERLOADED,
}
_FIXES = {
    Reason.UNAUTHENTICATED: "The monitor does not take your credentials: start it again with the "
    "[auth] and [producers] of this gateway. It cannot be shown a client certificate from here: "
    "log in with a token.",
    Reason.FORBIDDEN: "The monitor knows you, but you may not look at it: give yourself the role "
    "view in the configuration that it reads, and start it again.",
    Reason.ISSUER_UNAVAILABLE: "The monitor cannot check your token: auth.jwt_jwks_url has to "
    "answer where it runs.",
    Reason.OVERLOADED: "The monitor cannot answer now: load the page again in a while.",
    Reason.INTERNAL: "See what runs at monitor.url, and its log.",
}

Json = dict[str, Any]


class MonitorAnswers:
    """Client of the monitor, with the caller's credentials. All methods may raise Refused."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._answers = BoundedCache[tuple[str, str | None], tuple[float, Json | Failure]](_KNOWN)

    async def groups(self, request: web.Request) -> Json:
        """Return all groups."""
        first = await self._ask(request, f"/v1/groups?limit={_LIMIT}")
        groups, following = [*first["groups"]], first["next"]
        for _ in range(_PAGES - 1):
            if following is None:
                break
            query = urlencode({"limit": _LIMIT, "after": following})
            more = await self._ask(request, f"/v1/groups?{query}")
            groups += more["groups"]
            following = more["next"]
        return {**first, "groups": groups}

    async def group(self, request: web.Request, name: str) -> list[Json]:
        """Return one group, on each cluster that has it."""
        answer = await self._ask(request, f"/v1/groups/{path_segment(name)}")
        on: list[Json] = answer["on"]
        return on

    async def readers(self, request: web.Request, topic: str, partition: int) -> list[Json]:
        """Return the groups that read a partition, with their positions; the worst first."""
        query = urlencode({"topic": topic, "partition": partition, "limit": READERS})
        answer = await self._ask(request, f"/v1/groups?{query}")
        # a monitor of an earlier release responds with all groups
        return [group for group in answer["groups"] if "partition" in group]

    async def _ask(self, request: web.Request, path: str) -> Json:
        authorization = request.headers.get("Authorization")
        key, now = (path, authorization), time.monotonic()
        cached = self._answers.get(key)
        if cached is None or now - cached[0] >= _FRESH_S:
            answer = _answer(await self._instance.monitored(path, authorization))
            cached = self._answers.put(key, (now, answer))
        if isinstance(cached[1], Failure):
            raise Refused(cached[1])
        return cached[1]


def fix_of(failure: Failure) -> str:
    """Return the fix for a refusal of the monitor; empty if the failure contains it."""
    return _FIXES.get(failure.reason, "")


def _answer(response: Monitored | Failure) -> Json | Failure:
    if isinstance(response, Failure):
        return response
    if response.status != 200:
        return _refusal(response)
    try:
        return _read(response.body)
    except Refused as refused:
        return refused.failure


def _refusal(answer: Monitored) -> Failure:
    """Return the failure in a response of the monitor, with its own detail if it has one."""
    try:
        problem = _read(answer.body)
    except Refused:  # a proxy's page
        problem = {}
    given = problem.get("reason")
    by_status = _BY_STATUS.get(answer.status, Reason.INTERNAL)
    reason = Reason(given) if given in frozenset(Reason) else by_status
    return Failure(reason, str(problem.get("detail", f"the monitor answered {answer.status}")))


def _read(body: bytes) -> Json:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise Refused(
            Failure(Reason.INTERNAL, "the server at monitor.url is not a headgate monitor")
        )
    return answer
