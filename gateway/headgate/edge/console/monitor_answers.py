"""What `headgate monitor` answers to the console's pages, and what to do where it does not."""

import time
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.edge.management.instance import Instance, Monitored

_FRESH_S = 2.0  # the monitor polls Kafka every 10 s
_KNOWN = 64  # answers that are kept for so long
_LIMIT, _PAGES = 1000, 5  # groups in an answer of the monitor, and how many are asked for
READERS = 50  # of a partition: the worst
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
    """Asks with the caller's own credentials. All methods raise Refused."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._answers: dict[tuple[str, str | None], tuple[float, Json]] = {}

    async def groups(self, request: web.Request) -> Json:
        """All groups."""
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
        """One group, on each cluster that has it."""
        found = await self._ask(request, f"/v1/groups/{quote(name, safe='')}")
        on: list[Json] = found["on"]
        return on

    async def readers(self, request: web.Request, topic: str, partition: int) -> list[Json]:
        """The groups that read a partition, each with where it is there; the worst first."""
        query = urlencode({"topic": topic, "partition": partition, "limit": READERS})
        found = await self._ask(request, f"/v1/groups?{query}")
        # a monitor of an earlier release answers with all groups
        return [one for one in found["groups"] if "partition" in one]

    async def _ask(self, request: web.Request, path: str) -> Json:
        authorization = request.headers.get("Authorization")
        key, now = (path, authorization), time.monotonic()
        known = self._answers.get(key)
        if known is not None and now - known[0] < _FRESH_S:
            return known[1]
        found = await self._instance.monitored(path, authorization)
        if isinstance(found, Failure):
            raise Refused(found)
        if found.status != 200:
            raise Refused(_refusal(found))
        answer = _read(found.body)
        if len(self._answers) >= _KNOWN:
            self._answers.clear()
        self._answers[key] = now, answer
        return answer


def fix_of(failure: Failure) -> str:
    """What to do where the monitor refuses; nothing where the failure itself says it."""
    return _FIXES.get(failure.reason, "")


def _refusal(answer: Monitored) -> Failure:
    """Why the monitor does not say it, in its own words where it has some."""
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
