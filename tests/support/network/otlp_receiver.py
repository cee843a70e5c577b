"""A collector of spans over OTLP/HTTP, as far as tests need one. It takes JSON as strictly as the
specification writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

from headgate.devstack.ports import LOOPBACK

_ID = {"traceId": re.compile("[0-9a-f]{32}"), "spanId": re.compile("[0-9a-f]{16}")}
_KNOWN = {
    "traceId", "spanId", "parentSpanId", "traceState", "flags", "name", "kind",
    "startTimeUnixNano", "endTimeUnixNano", "attributes", "events", "status",
}  # fmt: skip


class ReceivedSpan(NamedTuple):
    """One span. resource: who made it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began_ns: int
    ended_ns: int
    attributes: Mapping[str, str | int]
    resource: Mapping[str, str | int]
    state: str
    error: str


class OtlpReceiver:
    """Listens while it is entered (`running`). status: what it answers.  requests: headers of
    those that came.  answers: cleared, it takes requests and answers none."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[ReceivedSpan] = []
        self.requests: list[dict[str, str]] = []
        self.problems: list[str] = []
        self.status = 200
        self.answers = Event()
        self.answers.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.answers.wait()
                receiver.take(self.path, dict(self.headers.items()), body)
                with suppress(OSError):  # who asked may have given up
                    self._answer()

            def _answer(self) -> None:
                self.send_response(receiver.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    @property
    def endpoint(self) -> str:
        """For `tracing.endpoint`."""
        return f"http://{LOOPBACK}:{self.port}"

    @contextmanager
    def running(self) -> Iterator[OtlpReceiver]:
        """Answer, until the block ends; then there is nobody at its port."""
        thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.answers.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """A request has come."""
        self.requests.append({name.lower(): value for name, value in headers.items()})
        try:
            assert (path, headers["Content-Type"]) == ("/v1/traces", "application/json")
            if self.status == 200:
                self.spans += _spans(json.loads(body))
        except Exception as error:  # for the test's own thread
            self.problems.append(f"{error!r} in {body!r}")

    def of(self, trace_id: str) -> dict[str, ReceivedSpan]:
        """The spans of a trace so far, by the first word of their names."""
        assert self.problems == []
        return {one.name.split()[0]: one for one in self.spans if one.trace_id == trace_id}


def _spans(request: Any) -> Iterator[ReceivedSpan]:
    (whole,) = request.pop("resourceSpans")
    assert request == {}
    (scoped,) = whole["scopeSpans"]
    assert scoped["scope"]["name"] == "headgate"
    resource = _attributes(whole["resource"]["attributes"])
    for span in scoped["spans"]:
        assert set(span) <= _KNOWN
        assert all(form.fullmatch(span[name]) for name, form in _ID.items())
        assert _ID["spanId"].fullmatch(span.get("parentSpanId", "0" * 16))
        assert span["kind"] in range(1, 6)
        assert span.get("status", {"code": 2})["code"] == 2
        began_ns, ended_ns = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        for event in span.get("events", ()):
            assert began_ns <= int(event["timeUnixNano"]) <= ended_ns
        yield ReceivedSpan(
            span["name"], span["traceId"], span["spanId"], span.get("parentSpanId", ""), began_ns,
            ended_ns, _attributes(span["attributes"]), resource, span.get("traceState", ""),
            span.get("status", {}).get("message", ""),
        )  # fmt: skip


def _attributes(given: list[Any]) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for one in given:
        ((kind, value),) = one["value"].items()
        assert isinstance(value, str)
        assert kind in ("stringValue", "intValue")
        assert one["key"] not in found
        found[one["key"]] = int(value) if kind == "intValue" else value
    return found
