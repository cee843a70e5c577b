"""The OpenAPI document says what the routers do, no more and no less."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiohttp import web
from openapi_schema_validator import OAS31Validator

from headgate.admin.app import management_app
from headgate.config.settings import HttpSettings, Settings
from headgate.http.auth import Cors
from headgate.http.openapi.document import (
    DATA,
    MANAGEMENT_PORT,
    document,
    document_of,
    operations,
)
from headgate.http.routes import DataPlane
from headgate.model.outcome import TRAITS, Reason
from support.clients.declared import declared_reasons
from support.gateway.admin_world import FakeInstance, admin_of

HTTP = HttpSettings(batch_max_events=77, body_max_bytes=123_456)


def api() -> Any:
    return orjson.loads(document(HTTP))


def declared(*ports: str) -> set[tuple[str, str]]:
    return {(one.method, one.path) for one in operations(HTTP) if one.port in ports}


class AnyPages:
    """Has a page under every name; only the routes are looked at."""

    def __getattr__(self, name: str) -> Any:
        async def page(_request: web.Request) -> web.Response:
            return web.Response()

        return page


async def test_the_data_plane_is_what_is_declared() -> None:
    some: Any = AnyPages()
    confluent: Any = SimpleNamespace(service=some, post=some.post)
    plane = DataPlane(some, some, confluent, some, some, some, Cors(()))
    routed = {(method, one.template) for one in plane.paths for method in one.methods}
    assert routed == declared("data", "both")


async def test_the_management_port_is_what_is_declared() -> None:
    app = management_app(admin_of(FakeInstance(Settings())))
    routed = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    pages = {one for one in routed if one[1] == "/" or one[1].startswith("/console")}
    assert pages, "the console's, for people"
    assert routed - pages == declared("management", "both")


def test_the_document_is_sound() -> None:
    page = api()
    assert page["openapi"].startswith("3.1")
    schemas = page["components"]["schemas"]
    for schema in schemas.values():
        OAS31Validator.check_schema(schema)
    refs = set(re.findall(r'"#/components/schemas/(\w+)"', document(HTTP).decode()))
    assert refs <= schemas.keys()
    ids = [one["operationId"] for methods in page["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    for target, methods in page["paths"].items():
        for one in methods.values():
            named = {each["name"] for each in one.get("parameters", ()) if each["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", target)), target


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, dict | list):
            yield from parts(one)


def test_what_is_required_is_described() -> None:
    for one in parts(api()):
        # Where there are no properties, it is a condition on an object that is described elsewhere.
        if isinstance(one.get("required"), list) and one.get("type") == "object":
            assert set(one["required"]) <= set(one.get("properties", ())), one


def test_bodies_of_several_types_are_told_apart_by_generated_clients() -> None:
    """They choose the content type by the class of the body: no "anything", no array."""
    page = api()
    for methods in page["paths"].values():
        for one in methods.values():
            content = one.get("requestBody", {}).get("content", {})
            for media in content.values() if len(content) > 1 else ():
                assert "$ref" in media["schema"] or media["schema"]["type"] == "string"


def test_each_operation_says_what_it_does() -> None:
    for methods in api()["paths"].values():
        assert all(one["description"] for one in methods.values())


def test_examples_fit_their_schemas() -> None:
    page = api()
    for methods in page["paths"].values():
        for one in methods.values():
            for parameter in one.get("parameters", ()):
                if "example" in parameter:
                    OAS31Validator(parameter["schema"]).validate(parameter["example"])
            bodies = [one.get("requestBody", {}), *one["responses"].values()]
            for media in (media for body in bodies for media in body.get("content", {}).values()):
                if "example" in media and media["schema"].get("type") != "string":
                    schema = {**media["schema"], "components": page["components"]}
                    OAS31Validator(schema).validate(media["example"])
    for header in page["components"]["headers"].values():
        OAS31Validator(header["schema"]).validate(header["example"])


def test_each_operation_has_examples_of_its_bodies() -> None:
    for path, methods in api()["paths"].items():
        for method, one in methods.items():
            body = one.get("requestBody", {"content": {"": {"example": None}}})["content"]
            assert any("example" in media for media in body.values()), (method, path)
            done = [answer for status, answer in one["responses"].items() if status < "300"]
            assert any(
                "example" in media for answer in done for media in answer["content"].values()
            ), (method, path)


def test_members_have_meanings() -> None:
    """Of the schemas that have a name, and of the objects in their lists."""
    silent = []
    for name, schema in api()["components"]["schemas"].items():
        for member, one in schema.get("properties", {}).items():
            if "description" not in one and "$ref" not in one:
                silent.append(f"{name}.{member}")
    assert silent == []


def test_headers_that_responses_name_are_described() -> None:
    page = api()
    named = set(re.findall(r'"#/components/headers/([\w-]+)"', document(HTTP).decode()))
    described = page["components"]["headers"].keys()
    assert named == described
    exposed = set(Cors(["*"]).headers({"Origin": "a"})["Access-Control-Expose-Headers"].split(", "))
    assert exposed <= described


def test_there_is_a_page_for_each_reason() -> None:
    (parameter,) = api()["paths"]["/problems/{reason}"]["get"]["parameters"]
    assert sorted(parameter["schema"]["enum"]) == sorted(TRAITS)


# Modules that name the reasons of an operation, by the beginning of its path: the first that fits.
SOURCES = {
    "/v1/topics/{topic}/events": (
        "ingest", "formats", "model", "spool", "blobs", "oversize", "suppression", "idempotency",
        "kafka", "coalescer", "http/body.py", "http/events.py",
    ),
    "/v1/bursts": ("coalescer", "kafka", "ingest"),
    "/topics": ("ingest", "formats", "model", "idempotency", "kafka", "http/confluent"),
    "/v3": ("ingest", "formats", "model", "suppression", "blobs", "kafka", "http/confluent"),
    "/problems/": ("http/routes.py",),
    "/docs/": ("http/answer.py",),
    "/v1/pauses": ("admin/pauses.py",),
    "/v1/suppression": ("admin/control_plane.py", "supervisor/worker.py"),
    "/v1/groups/": ("supervisor/upstreams.py", "supervisor/monitor_process.py"),
    "/v1/groups": ("supervisor/upstreams.py",),
    "/v1/audits": ("admin/audits.py", "audits"),
    "/v1/replays": ("replays", "admin/replays.py"),
    "/v1/offsets": ("replays",),
    "/v1/coverage": ("replays",),
    "/v1/snapshots": ("replays",),
    "/v1": ("admin/control_plane.py",),
    "/": (),
}  # fmt: skip
FRONT = ("http/auth.py", "http/jwt.py", "http/server.py")


def reasons_in(places: tuple[str, ...]) -> set[str]:
    """The reasons that the modules name; a body's are in their common reader."""
    root = files("headgate")
    reasons = set[str]()
    for place in map(root.joinpath, places):
        modules = [Path(str(place))] if place.is_file() else Path(str(place)).rglob("*.py")
        for module in modules:
            if module.name != "outcome.py":  # it has all of them
                reasons.update(re.findall(r"Reason\.([A-Z_]+)", module.read_text()))
    return {Reason[name] for name in reasons}


def test_no_operation_lists_a_reason_that_its_code_does_not_give() -> None:
    front = reasons_in(FRONT) | {Reason.MALFORMED}
    body = {Reason.TOO_LARGE, Reason.REQUEST_TIMEOUT, Reason.OVERLOADED}
    body |= {Reason.UNSUPPORTED_ENCODING}
    wrong = []
    for operation in operations(HTTP):
        begin = next(begin for begin in SOURCES if operation.path.startswith(begin))
        given = front | body if operation.method in ("POST", "PUT", "DELETE") else front
        more = declared_reasons(operation.method, operation.path)
        more -= given | reasons_in(SOURCES[begin])
        if more:
            wrong.append((operation.method, operation.path, more))
    assert wrong == []


def test_posting_events_may_answer_every_reason_but_those_of_other_paths() -> None:
    others = {
        "method_not_allowed", "not_found", "monitor_unavailable", "replay_finished",
        "group_active", "not_covered", "unknown_partition", "needs_native_api",
    }  # fmt: skip
    reported = declared_reasons("POST", "/v1/topics/{topic}/events")
    assert set(TRAITS) - reported == others


def test_the_limits_are_those_of_the_configuration() -> None:
    text = api()["paths"]["/v1/topics/{topic}/events"]["post"]["description"]
    assert "77 events" in text
    assert "123456 bytes" in text


def of_port(ports: frozenset[str], **http: Any) -> Any:
    return orjson.loads(document_of(HttpSettings(**http), ports))


@pytest.mark.parametrize(("ports", "port"), [(DATA, "data"), (MANAGEMENT_PORT, "management")])
def test_the_document_of_a_port_has_what_it_serves_and_no_more(
    ports: frozenset[str], port: str
) -> None:
    page = of_port(ports)
    found = {(m.upper(), path) for path, methods in page["paths"].items() for m in methods}
    assert found == declared(port, "both")
    assert all(
        "servers" not in one for methods in page["paths"].values() for one in methods.values()
    )
    text = orjson.dumps(page).decode()
    refs = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert refs == page["components"]["schemas"].keys()
    headers = set(re.findall(r'"#/components/headers/([\w-]+)"', text))
    assert headers == page["components"]["headers"].keys()
    used = {tag for ms in page["paths"].values() for one in ms.values() for tag in one["tags"]}
    assert {tag["name"] for tag in page["tags"]} == used
    assert page["tags"][-1]["name"] == "Pages"


def test_one_port_for_both_serves_all() -> None:
    http = HttpSettings(port=8080, management_port=8080)
    assert document_of(http, DATA) == document_of(http, MANAGEMENT_PORT) == document(http)


def test_each_placeholder_has_a_value_and_each_part_a_use() -> None:
    source = (files("headgate.http.openapi") / "openapi.json").read_text()
    assert "${" not in document(HTTP).decode()
    unused = [name for name in orjson.loads(source)["x-parts"] if f"${{{name}}}" not in source]
    assert unused == []
