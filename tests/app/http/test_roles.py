"""Who may do what: every route of both ports, every kind of caller, topics of theirs and others.

A new route fails until it has a row here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.config.settings import ProducerSettings
from support.identity.secured_ports import (
    Caller,
    SecuredPorts,
    producer,
    secured_ports,
    send,
    token_of,
)

OWN, OTHER = "deals", "orders"  # the topic that producers may post to, and one that they may not
OPEN, KNOWN, POST, VIEW, OPERATE = "open", "known", "post", "view", "operate"
SEE = "view or operate"
DATA, MANAGEMENT = "data", "management"
JSON = "application/json"
V2 = "application/vnd.kafka.json.v2+json"
PAUSE = json.dumps({"scope": "all", "reason": "test"}).encode()
REPLAY = json.dumps(
    {"name": "r", "topic": OWN, "from": {"offset": 0}, "to": {"offset": 1}, "deliver": {}}
).encode()


class Row(NamedTuple):
    """One route. access: who is let in.  body, content_type: of a request to it.

    status: what those are answered who are let in; of the other topic where that differs.
    """

    access: str
    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    of_other: int | None = None
    query: str = ""


EVENT, RECORDS = b'{"id":1}', b'{"records":[{"value":{"id":2}}]}'
RECORD = b'{"value":{"type":"JSON","data":{"id":3}}}'

# Port, method, path.
TABLE = {
    (DATA, "POST", "/v1/topics/{topic}/events"): Row(POST, 201, EVENT),
    # No topic here has bursts.
    (DATA, "POST", "/v1/bursts/{id}/commit"): Row(POST, 400, query="?topic={topic}"),
    (DATA, "GET", "/topics"): Row(KNOWN),
    (DATA, "GET", "/topics/{topic}"): Row(POST),
    (DATA, "POST", "/topics/{topic}"): Row(POST, 200, RECORDS, V2),
    (DATA, "GET", "/topics/{topic}/partitions"): Row(POST),
    (DATA, "GET", "/topics/{topic}/partitions/{partition}"): Row(POST, 404),
    (DATA, "POST", "/topics/{topic}/partitions/{partition}"): Row(POST, 200, RECORDS, V2),
    (DATA, "GET", "/v3/clusters"): Row(KNOWN),
    (DATA, "GET", "/v3/clusters/{cluster_id}"): Row(KNOWN),
    (DATA, "POST", "/v3/clusters/{cluster_id}/topics/{topic}/records"): Row(POST, 200, RECORD),
    (DATA, "GET", "/live"): Row(OPEN),
    (DATA, "GET", "/ready"): Row(OPEN),
    (DATA, "GET", "/problems"): Row(OPEN),
    (DATA, "GET", "/problems/{reason}"): Row(OPEN),
    (DATA, "GET", "/openapi.json"): Row(OPEN),
    (DATA, "GET", "/docs"): Row(OPEN),
    (DATA, "GET", "/docs/{file}"): Row(OPEN),
    (MANAGEMENT, "GET", "/live"): Row(OPEN),
    (MANAGEMENT, "GET", "/ready"): Row(OPEN),
    (MANAGEMENT, "GET", "/metrics"): Row(OPEN),
    (MANAGEMENT, "GET", "/v1/status"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/producers"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/producers/{name}"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/topics"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/topics/{topic}"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/spool"): Row(VIEW),
    (MANAGEMENT, "DELETE", "/v1/suppression/{topic}"): Row(OPERATE, 200, of_other=400),
    (MANAGEMENT, "GET", "/v1/pauses/{group}"): Row(VIEW),
    (MANAGEMENT, "PUT", "/v1/pauses/{group}"): Row(OPERATE, 200, PAUSE),
    (MANAGEMENT, "DELETE", "/v1/pauses/{group}"): Row(OPERATE, 200, PAUSE, of_other=404),  # gone
    (MANAGEMENT, "GET", "/v1/groups"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/groups/{group}"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/changes"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/log"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/config"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/config/findings"): Row(VIEW),
    (MANAGEMENT, "GET", "/v1/audits"): Row(VIEW, 404, query="?topic={topic}"),
    (MANAGEMENT, "GET", "/v1/audits/comparison"): Row(VIEW, 404, query="?topic={topic}"),
    (MANAGEMENT, "GET", "/v1/audits/latest"): Row(VIEW, 404),
    (MANAGEMENT, "POST", "/v1/replays"): Row(OPERATE, 422, REPLAY),
    (MANAGEMENT, "GET", "/v1/replays"): Row(VIEW, 200),
    (MANAGEMENT, "GET", "/v1/replays/{id}"): Row(VIEW, 404),
    (MANAGEMENT, "DELETE", "/v1/replays/{id}"): Row(OPERATE, 404),
    (MANAGEMENT, "POST", "/v1/replays/{id}/pause"): Row(OPERATE, 404),
    (MANAGEMENT, "POST", "/v1/replays/{id}/resume"): Row(OPERATE, 404),
    (MANAGEMENT, "GET", "/v1/replays/{id}/events"): Row(VIEW, 404),
    (MANAGEMENT, "POST", "/v1/offsets/translate"): Row(VIEW, 422, b"{}"),
    (MANAGEMENT, "GET", "/v1/coverage/{topic}"): Row(VIEW, 422),
    (MANAGEMENT, "GET", "/v1/snapshots"): Row(VIEW, 200),
    (MANAGEMENT, "POST", "/v1/snapshots"): Row(OPERATE, 422, b"{}"),
    (MANAGEMENT, "GET", "/"): Row(OPEN, 302),
    (MANAGEMENT, "GET", "/console/"): Row(OPEN, 302),
    (MANAGEMENT, "GET", "/console"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/static/{name}"): Row(OPEN, 404),
    (MANAGEMENT, "GET", "/console/producers"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/producers/{name}"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/topics"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/topics/{topic}"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/topics/{topic}/partitions/{partition}"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/groups"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/groups/{group}"): Row(VIEW),
    (MANAGEMENT, "POST", "/console/groups/{group}/pause"): Row(SEE, 403),
    (MANAGEMENT, "POST", "/console/groups/{group}/resume"): Row(SEE, 403),
    (MANAGEMENT, "GET", "/console/replays"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/replays/new"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/replays/{id}"): Row(VIEW, 404),
    (MANAGEMENT, "POST", "/console/replays/new"): Row(SEE, 403),
    (MANAGEMENT, "POST", "/console/replays/{id}/pause"): Row(SEE, 403),
    (MANAGEMENT, "POST", "/console/replays/{id}/resume"): Row(SEE, 403),
    (MANAGEMENT, "POST", "/console/replays/{id}/cancel"): Row(SEE, 403),
    (MANAGEMENT, "GET", "/console/audits"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/audits/{topic}"): Row(VIEW, 404),
    (MANAGEMENT, "GET", "/console/audits/{topic}/compare"): Row(VIEW, 404),
    (MANAGEMENT, "GET", "/console/configuration"): Row(VIEW),
    (MANAGEMENT, "GET", "/console/log"): Row(VIEW),
    # Everybody lacks the token that is in the form; with it: test_console_actions.py.
    (MANAGEMENT, "POST", "/console/topics/{topic}/forget"): Row(SEE, 403),
    (MANAGEMENT, "GET", "/problems"): Row(OPEN),
    (MANAGEMENT, "GET", "/problems/{reason}"): Row(OPEN),
    (MANAGEMENT, "GET", "/openapi.json"): Row(OPEN),
    (MANAGEMENT, "GET", "/docs"): Row(OPEN),
    (MANAGEMENT, "GET", "/docs/{file}"): Row(OPEN),
}
# The roles of each caller; None: nobody knows it.
ROLES = {
    "no credentials": None,
    "an unknown token": None,
    "a token of a producer without a role": set(),
    "a token with produce": {"produce"},
    "a token with view": {"view"},
    "a token with operate": {"operate"},
    "a token with view and operate": {"view", "operate"},
    "a signed token with produce": {"produce"},
    "a signed token with view": {"view"},
    "a signed token with operate": {"operate"},
    "a signed token that has expired": None,
    "a certificate with produce": {"produce"},
    "a certificate with view": {"view"},
    "a certificate of no producer": None,
}
PRODUCERS: dict[str, ProducerSettings] = {
    "plain": producer("plain", topics=(OWN,), roles=()),
    "writer": producer("writer", topics=(OWN,)),
    "viewer": producer("viewer", topics=("*",), roles=("view",)),
    "operator": producer("operator", topics=("*",), roles=("operate",)),
    "oncall": producer("oncall", roles=("view", "operate")),
    "machine": ProducerSettings(topics=(OWN,)),
    "probe": ProducerSettings(topics=("*",), roles=("view",)),
}
PARTS = {
    "partition": "0",
    "cluster_id": "c-1",
    "reason": "forbidden",
    "file": "page.js",
    "name": "writer",
    "group": "billing",
    "id": "none",
}


def callers(ports: SecuredPorts) -> dict[str, Caller]:
    def signed(*roles: str, **claims: object) -> Caller:
        said = {"sub": "robot", "topics": [OWN], "roles": roles, **claims}
        return Caller(ports.issuer.token("key", **said))

    return {
        "no credentials": Caller(),
        "an unknown token": Caller("unknown"),
        "a token of a producer without a role": Caller(token_of("plain")),
        "a token with produce": Caller(token_of("writer")),
        "a token with view": Caller(token_of("viewer")),
        "a token with operate": Caller(token_of("operator")),
        "a token with view and operate": Caller(token_of("oncall")),
        "a signed token with produce": signed("produce"),
        "a signed token with view": signed("view"),
        "a signed token with operate": signed("operate"),
        "a signed token that has expired": signed("produce", "view", "operate", exp=1),
        "a certificate with produce": Caller(pair=ports.authority.issue("machine")),
        "a certificate with view": Caller(pair=ports.authority.issue("probe")),
        "a certificate of no producer": Caller(pair=ports.authority.issue("stranger")),
    }


@pytest.fixture
async def ports(tmp_path: Path) -> AsyncIterator[SecuredPorts]:
    async with secured_ports(tmp_path, PRODUCERS) as found:
        yield found


def routes(ports: SecuredPorts) -> Iterator[tuple[str, str, str]]:
    for path in ports.data.plane.paths:
        for method in path.methods:
            yield DATA, method, path.template
    for route in ports.management_app.router.routes():
        assert route.resource is not None
        if route.method != "HEAD":
            yield MANAGEMENT, route.method, route.resource.canonical


def expected(row: Row, roles: set[str] | None, topic: str) -> int:
    welcome = row.status if topic == OWN or row.of_other is None else row.of_other
    if row.access == OPEN:
        return welcome
    if roles is None:
        return 401
    is_let_in = {
        KNOWN: True,
        POST: "produce" in roles and topic == OWN,
        VIEW: "view" in roles,
        OPERATE: "operate" in roles,
        SEE: not roles.isdisjoint({"view", "operate"}),
    }
    return welcome if is_let_in[row.access] else 403


async def test_every_route_has_a_row(ports: SecuredPorts) -> None:
    assert sorted(routes(ports)) == sorted(TABLE)


def asked(ports: SecuredPorts, caller: Caller, *, is_head: bool) -> dict[tuple[str, ...], int]:
    """What this caller is answered at each route, for both topics."""
    connections = {
        DATA: ports.connect(caller),
        MANAGEMENT: ports.connect(caller, ports.management_port),
    }
    found: dict[tuple[str, ...], int] = {}
    for (port, method, template), row in TABLE.items():
        if is_head and method != "GET":
            continue
        for topic in (OWN, OTHER):
            path = (template + row.query).format(topic=topic, **PARTS)
            headers = {**caller.headers, "Content-Type": row.content_type}
            request = ("HEAD" if is_head else method, path, row.body, headers)
            found[port, method, template, topic] = send(connections[port], *request).status
    for connection in connections.values():
        connection.close()
    return found


@pytest.mark.parametrize("is_head", [False, True], ids=["", "head"])
@pytest.mark.parametrize("who", ROLES)
async def test_each_role_may_call_exactly_its_operations(
    ports: SecuredPorts, who: str, is_head: bool
) -> None:
    caller = callers(ports)[who]
    found = await asyncio.to_thread(asked, ports, caller, is_head=is_head)
    wanted = {
        (*route, topic): expected(row, ROLES[who], topic)
        for route, row in TABLE.items()
        for topic in (OWN, OTHER)
        if not is_head or route[1] == "GET"
    }
    assert {at: status for at, status in found.items() if status != wanted[at]} == {}
