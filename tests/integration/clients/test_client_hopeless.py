"""Both clients give up early where waiting cannot help: TLS on a plain port, certificates, hosts.

The servers are real, and the clients have their usual patience of two minutes.
"""

from __future__ import annotations

import asyncio
import html
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headgate_client import AsyncClient, Attempt, Client, Observer, Outcome, Rejected, Retry
from support.clients.node import needs_node, run_program
from support.identity.authority import Authority

UNKNOWN = "headgate.invalid"  # a name that never resolves (RFC 6761)
QUICK = Retry(first_wait_s=0.001)


class Handler(BaseHTTPRequestHandler):
    """Answers as a gateway that published the event."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"outcome":"published","partition":0,"offset":0}'
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


class Quiet(ThreadingHTTPServer):
    """Says nothing of handshakes that fail."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def serving(
    tls: ssl.SSLContext | None = None, handler: type[BaseHTTPRequestHandler] = Handler
) -> Iterator[int]:
    """Run a server on a free port."""
    with Quiet(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure(authority: Authority) -> Iterator[int]:
    with serving(context(authority)) as port:
        yield port


def context(authority: Authority) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("server"))
    return tls


def demanding(authority: Authority) -> ssl.SSLContext:
    """Ask for a certificate of the client, in TLS 1.2.

    In TLS 1.3 a client learns of the refusal after its request, if the connection is not reset
    before: asyncio and Node then see only that.
    """
    tls = context(authority)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.file)
    return tls


class Count(Observer):
    """Counts requests."""

    def __init__(self) -> None:
        self.requests = 0

    def on_attempt(self, attempt: Attempt) -> None:
        self.requests += 1


def threads(url: str | list[str], **options: Any) -> tuple[Outcome, int]:
    count = Count()
    with Client(url, observer=count, **options) as client:
        return client.send("orders", {"id": 1}), count.requests


def loop(url: str | list[str], **options: Any) -> tuple[Outcome, int]:
    async def send() -> tuple[Outcome, int]:
        count = Count()
        async with AsyncClient(url, observer=count, **options) as client:
            return await client.send("orders", {"id": 1}), count.requests

    return asyncio.run(send())


def node(url: str | list[str], authority: Authority | None = None) -> dict[str, Any]:
    environment = {} if authority is None else {"NODE_EXTRA_CA_CERTS": str(authority.file)}
    options = {"retry": {"firstWaitMs": 1}}
    (said,) = run_program("send.mjs", {"url": url, "options": options}, environment)
    assert isinstance(said, dict)
    return said


Shell = Callable[..., tuple[Outcome, int]]
SHELLS = pytest.mark.parametrize("send", [threads, loop])


def check(sent: tuple[Outcome, int], requests: int, text: str) -> None:
    outcome, made = sent
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.retryable, made) == ("unreachable", False, requests)
    assert text in outcome.detail


def check_node(said: dict[str, Any], requests: int, text: str) -> None:
    found = [said[name] for name in ("name", "reason", "retryable", "requests")]
    assert found == ["rejected", "unreachable", False, requests]
    assert text in said["detail"]


@SHELLS
def test_tls_on_a_port_without_it(send: Shell) -> None:
    with serving() as port:
        check(send(f"https://127.0.0.1:{port}"), 1, "does not speak TLS: use http://")


@SHELLS
def test_a_certificate_of_an_authority_that_is_not_trusted(send: Shell, secure: int) -> None:
    check(send(f"https://127.0.0.1:{secure}"), 1, "tls= context that trusts")


@SHELLS
def test_a_client_without_the_certificate_that_the_server_asks_for(
    send: Shell, authority: Authority
) -> None:
    tls = demanding(authority)
    trusting = ssl.create_default_context(cafile=str(authority.file))
    with serving(tls) as port:
        check(send(f"https://127.0.0.1:{port}", tls=trusting), 1, "refused the TLS handshake")


@SHELLS
def test_a_host_that_is_unknown_after_a_few_tries(send: Shell) -> None:
    check(send(f"http://{UNKNOWN}:8080", retry=QUICK), 5, "unknown after 5 tries")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@SHELLS
def test_a_port_without_a_server_is_unreachable_at_the_end_of_the_patience(
    send: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    outcome, requests = send(url, retry=Retry(patience_s=0.5, first_wait_s=0.05))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.retryable) == ("unreachable", True)
    assert outcome.detail.startswith(f"{url}: ConnectError: ")
    begin, end = caplog.messages
    assert requests > 1
    assert re.match(rf"orders: 1 event, attempt 1 failed: unreachable \({url}: ", begin)
    assert end.startswith(f"orders: 1 event rejected: unreachable ({url}: ")


class Echo(Handler):
    """Answers with a page that shows the headers of the request, as a proxy under test does."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = f"<html><pre>{html.escape(str(self.headers))}</pre></html>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@SHELLS
def test_a_page_of_a_proxy_shows_no_token(send: Shell, caplog: pytest.LogCaptureFixture) -> None:
    with serving(handler=Echo) as port:
        outcome, _ = send(f"http://127.0.0.1:{port}", token="S3cr.et&token", retry=QUICK)
    assert isinstance(outcome, Rejected)
    assert outcome.reason == "bad_answer"
    assert "not a response of Headgate: '<html>" in outcome.detail
    assert "S3cr" not in outcome.detail + caplog.text


@needs_node
def test_a_port_without_a_server_and_a_page_of_a_proxy_from_node() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    options = {"retry": {"firstWaitMs": 20, "patienceMs": 300}, "token": "S3cr.et&token"}
    (said,) = run_program("send.mjs", {"url": url, "options": options})
    assert isinstance(said, dict)
    assert [said[name] for name in ("reason", "retryable")] == ["unreachable", True]
    assert said["detail"].startswith(f"{url}: TypeError: fetch failed")
    with serving(handler=Echo) as port:
        program = {"url": f"http://127.0.0.1:{port}", "options": options}
        (said,) = run_program("send.mjs", program)
    assert isinstance(said, dict)
    assert said["reason"] == "bad_answer"
    assert "S3cr" not in said["detail"]


@SHELLS
def test_another_address_is_used_first(send: Shell, secure: int) -> None:
    with serving() as port:
        urls = [f"https://127.0.0.1:{secure}", f"https://127.0.0.1:{port}"]
        outcome, requests = send(urls, retry=QUICK)
        assert isinstance(outcome, Rejected)
        assert (outcome.retryable, requests) == (False, 2)
        outcome, _ = send([*urls, f"http://127.0.0.1:{port}"], retry=QUICK)
        assert outcome.name == "published"


@needs_node
def test_from_node(authority: Authority, secure: int) -> None:
    with serving() as port:
        check_node(node(f"https://127.0.0.1:{port}"), 1, "does not speak TLS: use http://")
        urls = [f"https://127.0.0.1:{secure}", f"http://127.0.0.1:{port}"]
        assert node(urls)["name"] == "published"
    check_node(node(f"https://127.0.0.1:{secure}"), 1, "NODE_EXTRA_CA_CERTS")
    assert node(f"https://127.0.0.1:{secure}", authority)["name"] == "published"
    tls = demanding(authority)
    with serving(tls) as port:
        check_node(node(f"https://127.0.0.1:{port}", authority), 1, "refused the TLS handshake")
    check_node(node(f"http://{UNKNOWN}:8080"), 5, "unknown after 5 tries")
    check_node(node("http://127.0.0.1:6000"), 1, "never connects to this port")
