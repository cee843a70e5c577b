"""Commands say in a sentence why a file or a connection is of no use, and how to mend it."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headgate.cli import main
from headgate_spark.cli import main as spark

CONFIG = """
[clusters.main]
bootstrap_servers = "{server}"
[redis]
url = "redis://{server}/0"
[topics.orders]
key = ["/id"]
coalesce_quiet_ms = 50
kind = "state"
[monitor]
port = {port}
[coalescer]
port = {port}
"""
TECHNICAL = ("Errno", "('", "urlopen", "Error(", "Error:", "_ssl.c", "AddressFamily", "codec")


def told(code: int, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == code
    shown = "".join(capsys.readouterr())
    assert not [part for part in TECHNICAL if part in shown], shown
    return shown


@pytest.fixture
def closed() -> str:
    """The address of a port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def configured(folder: Path, server: str, port: int = 9096) -> str:
    file = folder / "headgate.toml"
    file.write_text(CONFIG.format(server=server, port=port))
    return str(file)


class Silent(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write nothing to standard error."""


@contextmanager
def serving() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("command", ["check", "serve", "init", "monitor", "coalesce", "dev"])
@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "does not exist"), ("folder", "a folder"), (b"\xff", "UTF-8"), (b"a = [", "TOML")],
)
def test_a_file_that_cannot_be_read(
    command: str, content: bytes | str | None, words: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "mine.toml"
    if content == "folder":
        file.mkdir()
    elif isinstance(content, bytes):
        file.write_bytes(content)
    shown = told(2, capsys, command, "-c", str(file))
    assert words in shown
    assert "mine.toml" in shown


def test_spark_jobs_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert spark(["mirror", "-c", str(tmp_path / "nope.toml")]) == 2
    shown = capsys.readouterr().err
    assert "nope.toml: the file does not exist" in shown
    assert "Errno" not in shown


@pytest.mark.parametrize("command", ["replay list", "top --once"])
def test_a_wrong_url(command: str, closed: str, capsys: pytest.CaptureFixture[str]) -> None:
    def asked(url: str) -> str:
        return told(1, capsys, *command.split(), "--url", url)

    assert "nothing listens there" in asked(f"http://{closed}")
    assert "host name is unknown" in asked("http://no-such-host.invalid:9090")
    with serving() as port:
        assert f"give --url http://127.0.0.1:{port}" in asked(f"https://127.0.0.1:{port}")


def test_a_token_file_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(2, capsys, "replay", "list", "--token-file", str(tmp_path / "nope"))
    assert "the file does not exist" in shown


@pytest.mark.parametrize("command", ["check --connect", "init", "compare main:a main:b --key /id"])
def test_brokers_that_do_not_answer(
    command: str, closed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told(1, capsys, *command.split(), "-c", configured(tmp_path, closed))
    assert f"{closed}: nothing listens there" in shown
    port = closed.rpartition(":")[2]
    elsewhere = f"no-such-host.invalid:{port}"
    shown = told(1, capsys, *command.split(), "-c", configured(tmp_path, elsewhere))
    assert f"{elsewhere}: the host name is unknown" in shown


def test_an_unexpected_error_of_a_check_is_one_line(
    closed: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(settings: object) -> None:
        raise AssertionError

    monkeypatch.setattr("headgate.check.connect.check_connections", broken)
    shown = told(1, capsys, "check", "--connect", "-c", configured(tmp_path, closed))
    assert "the connections cannot be checked" in shown
    assert "Traceback" not in shown


def test_a_wrong_password_of_redis_names_user_and_password(
    closed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Refusing(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        file = Path(configured(tmp_path, closed))
        url = f"redis://headgate:wrong@127.0.0.1:{port}/0"
        file.write_text(file.read_text().replace(f"redis://{closed}/0", url))
        shown = told(1, capsys, "check", "--connect", "-c", str(file))
        server.shutdown()
    assert "fix: Correct the user and the password in its URL" in shown
    assert "ssl_cafile" not in shown


@pytest.mark.parametrize(("command", "option"), [("monitor", "monitor"), ("coalesce", "coalescer")])
def test_a_port_that_is_taken(
    command: str, option: str, closed: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert main([command, "-c", configured(tmp_path, closed, port)]) == 1
    shown = capfd.readouterr().err.splitlines()[-1]
    assert f"{option}.port = {port}: another program listens there" in shown
