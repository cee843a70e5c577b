"""The active configuration and TLS files: origins, copies, refused files, replaced files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import serialization

from headgate.config import ConfigError, Settings
from headgate.config.settings import HttpSettings
from headgate.http.auth import Authenticator
from headgate.kafka.access import ClusterAccess, client_arguments
from headgate.supervisor.active_config import (
    ActiveConfig,
    FileWatch,
    TlsFilesError,
    TlsSnapshot,
    expires_at,
    private_folder,
)
from headgate.wiring.reloading import RestartNeededError
from support.identity.authority import Authority, Pair

TEXT = """[clusters.main]
bootstrap_servers = ["127.0.0.1:1"]
[redis]
url = "redis://127.0.0.1:1/0"
[topics.orders]
key = ["/id"]
"""


def no_callers(_settings: Settings) -> Authenticator:
    some: Any = None
    return cast("Authenticator", some)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def in_force(file: Path, tmp_path: Path) -> ActiveConfig:
    environ = {"HEADGATE_HTTP__WORKERS": "3", "HEADGATE_HTTP__PORT": "8081"}
    folder = tmp_path / "private"
    folder.mkdir()
    return ActiveConfig(file, environ, {"HEADGATE_HTTP__WORKERS": "--workers"}, folder)


def test_every_value_has_its_origin(in_force: ActiveConfig) -> None:
    origins = in_force.shown.loaded.origins
    assert origins["http.workers"] == "--workers"
    assert origins["http.port"] == "HEADGATE_HTTP__PORT"
    assert origins["clusters.main.bootstrap_servers"] == "headgate.toml:2"
    assert origins["topics.orders.cluster"].startswith("derived: ")
    assert origins["http.host"] == "default"


def test_a_good_file_is_taken_with_its_origins_and_kept(file: Path, in_force: ActiveConfig) -> None:
    before = in_force.shown
    file.write_text("# a line more\n" + TEXT + 'suppress = "raw"\nkind = "state"\n')
    reload = in_force.reread(no_callers)
    assert reload.settings is in_force.shown.loaded.settings
    assert in_force.shown.loaded.origins["topics.orders.key"] == "headgate.toml:7"
    assert in_force.shown.read_at >= before.read_at
    assert in_force.copy.read_text() == file.read_text()
    assert in_force.copy.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (TEXT + "nothing = 1\n", ConfigError),
        (TEXT + "[http]\nidle_timeout_ms = 1000\n", RestartNeededError),
    ],
)
def test_a_refused_file_changes_nothing(
    file: Path, in_force: ActiveConfig, text: str, error: type[Exception]
) -> None:
    before = in_force.shown
    file.write_text(text)
    with pytest.raises(error):
        in_force.reread(no_callers)
    assert in_force.shown is before
    assert in_force.copy.read_text() == TEXT


def test_findings_are_of_what_is_in_force(file: Path, in_force: ActiveConfig) -> None:
    assert "topics" not in {one.subject for one in in_force.findings()}
    file.write_text(TEXT.partition("[topics")[0])
    in_force.reread(no_callers)
    assert "topics" in {one.subject for one in in_force.findings()}


# ---- the private folder


HOLD = """
import sys, time
from headgate.supervisor.active_config import private_folder
with private_folder() as folder:
    (folder / "headgate.toml").write_text("a password")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def above(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; pytest's own are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setenv("TMPDIR", short)
        yield Path(short)


def left(above: Path) -> list[str]:
    return [one.name for one in above.iterdir()]


def test_the_folder_is_private_and_goes_with_the_context(above: Path) -> None:
    with private_folder() as folder:
        assert folder.parent == above
        assert folder.stat().st_mode & 0o777 == 0o700
    assert left(above) == []


def test_a_folder_of_a_killed_parent_is_cleaned_up_and_a_living_ones_is_left_alone(
    above: Path,
) -> None:
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        dead, alive = (Path((one.stdout or sys.stdin).readline().strip()) for one in holders)
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait(30)
        assert dead.exists()
        with private_folder() as folder:
            assert sorted(left(above)) == sorted([alive.name, folder.name])
            assert (alive / "headgate.toml").exists()
    finally:
        for one in holders:
            one.kill()
            one.communicate(timeout=30)
    with private_folder():
        assert not alive.exists()


def test_folders_of_others_stay(above: Path) -> None:
    (above / "headgate-of-somebody").mkdir()
    elsewhere = above / "kept"
    elsewhere.mkdir()
    (elsewhere / "parent.lock").touch()
    (above / "headgate-link").symlink_to(elsewhere)
    with private_folder() as folder:
        assert folder.exists()
    assert sorted(left(above)) == ["headgate-link", "headgate-of-somebody", "kept"]
    assert (elsewhere / "parent.lock").exists()


# ---- replaced files


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    watched = tmp_path / "headgate.toml"
    watched.write_text("one")
    return watched


def _watch(watched: Path) -> FileWatch:
    watch = FileWatch()
    watch.add(watched)
    return watch


def _looks(watch: FileWatch, times: int) -> list[bool]:
    return [watch.look() for _ in range(times)]


def test_a_new_state_is_found_once_by_the_second_look(watched: Path) -> None:
    watch = _watch(watched)
    assert not any(_looks(watch, 3))
    for text in ("three", "fourth"):
        watched.write_text(text)
        assert _looks(watch, 4) == [False, True, False, False]


def test_a_file_that_goes_on_changing_waits_for_two_equal_looks(watched: Path) -> None:
    watch = _watch(watched)
    for length in range(4, 9):
        watched.write_text("x" * length)
        assert not watch.look()
    assert _looks(watch, 2) == [True, False]


def test_a_file_that_is_as_before_again_is_no_new_state(watched: Path) -> None:
    watch = _watch(watched)
    away = watched.with_suffix(".away")
    watched.rename(away)
    assert not watch.look()
    away.rename(watched)
    assert not any(_looks(watch, 3))


def test_a_file_that_goes_away_or_comes_back_is_a_change(watched: Path) -> None:
    watch = _watch(watched)
    away = watched.with_suffix(".away")
    watched.rename(away)
    assert _looks(watch, 3) == [False, True, False]
    away.rename(watched)
    assert _looks(watch, 3) == [False, True, False]


def test_a_link_that_is_turned_is_a_change(tmp_path: Path) -> None:
    """As a kubelet replaces a ConfigMap: `..data` leads to another folder, names stay links."""
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        made = tmp_path / f"..{number}" / "headgate.toml"
        made.write_text("same length")
        os.utime(made, ns=(1, 1))  # the time does not tell them apart
    data, watched = tmp_path / "..data", tmp_path / "headgate.toml"
    data.symlink_to("..1")
    watched.symlink_to("..data/headgate.toml")
    watch = _watch(watched)
    assert not any(_looks(watch, 3))
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(data)
    assert _looks(watch, 3) == [False, True, False]


async def test_what_changed_before_the_first_look_is_asked_for(watched: Path) -> None:
    watch = _watch(watched)
    await asyncio.to_thread(watched.write_text, "another")
    asked = asyncio.Event()
    running = asyncio.create_task(watch.run(0.005, asked.set))
    await asyncio.wait_for(asked.wait(), 10)
    running.cancel()


# ---- TLS files


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("server")


def kept(pair: Pair, folder: Path, authorities: Path) -> TlsSnapshot:
    http = HttpSettings(
        tls_cert_file=str(pair.certificate),
        tls_key_file=str(pair.key),
        tls_client_ca_file=str(authorities),
    )
    (folder / "kept").mkdir(exist_ok=True)
    return TlsSnapshot(http, folder / "kept")


def locked(pair: Pair) -> bytes:
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


async def test_each_bad_file_is_named_at_the_start_and_at_a_reload(
    tmp_path: Path, authority: Authority, pair: Pair
) -> None:
    other = authority.issue("other").key.read_bytes()
    cases: list[tuple[Path, bytes | None, str, str]] = [
        (pair.certificate, b"no PEM", "http.tls_cert_file", "it is not PEM"),
        (pair.certificate, None, "http.tls_cert_file", "the file does not exist"),
        (pair.key, other, "http.tls_key_file", "it is not the key of http.tls_cert_file = "),
        (pair.key, b"", "http.tls_key_file", "it is empty"),
        (pair.key, locked(pair), "http.tls_key_file", "its private key has a password"),
        (authority.file, b"", "http.tls_client_ca_file", "it is empty"),
    ]
    reloaded = kept(pair, tmp_path, authority.file)
    assert reloaded.accept() is not None
    for file, bad, option, why in cases:
        good = file.read_bytes()
        if bad is None:
            file.unlink()
        else:
            file.write_bytes(bad)
        with pytest.raises(TlsFilesError) as refused:
            await asyncio.wait_for(asyncio.to_thread(reloaded.accept), 60)
        assert str(refused.value).startswith(f"{option}: {str(file)!r} cannot be used: ")
        assert why in str(refused.value)
        with pytest.raises(ConfigError) as at_start:
            kept(pair, tmp_path, authority.file).accept_first(Path("headgate.toml"))
        [problem] = at_start.value.problems
        assert problem.option == option
        assert str(file) in problem.given
        assert why in problem.given
        assert problem.fix
        file.write_bytes(good)
    assert reloaded.accept() is None, "the files are those in force"


def test_only_the_active_copies_of_tls_files_are_kept(
    tmp_path: Path, authority: Authority, pair: Pair
) -> None:
    snapshot = kept(pair, tmp_path, authority.file)

    def copies() -> list[str]:
        return sorted(path.name for path in (tmp_path / "kept").iterdir())

    assert snapshot.accept() is not None
    assert copies() == ["tls", "tls-1"]
    renewed = authority.issue("renewed")
    for number in (2, 3):
        pair.certificate.write_bytes(renewed.certificate.read_bytes())
        with pytest.raises(TlsFilesError):  # the key is another one's
            snapshot.accept()
        assert copies() == ["tls", f"tls-{2 * number - 3}"]
        pair.key.write_bytes(renewed.key.read_bytes())
        assert snapshot.accept() is not None
        assert copies() == ["tls", f"tls-{2 * number - 1}"]
        assert snapshot.context() is not None
        renewed = authority.issue("again")


@pytest.mark.parametrize("option", ["ssl_cafile", "ssl_certfile", "ssl_keyfile"])
def test_a_bad_file_of_a_cluster_is_named(
    tmp_path: Path, authority: Authority, pair: Pair, option: str
) -> None:
    files = {
        "ssl_cafile": str(authority.file),
        "ssl_certfile": str(pair.certificate),
        "ssl_keyfile": str(pair.key),
    }
    files[option] = str(tmp_path / "missing.pem")
    access = ClusterAccess("kafka:9092", security_protocol="SSL", **files)
    with pytest.raises(OSError, match=f"{option}: '.*missing.pem' cannot be used"):
        client_arguments(access)


# ---- the expiry of certificates


YEAR = timedelta(days=365)


def in_seconds(lasts: timedelta) -> float:
    return (datetime.now(UTC) + lasts).timestamp()


@pytest.mark.parametrize("lasts", [timedelta(hours=-1), timedelta(days=90), 40 * YEAR])
def test_the_end_of_a_certificate(tmp_path: Path, lasts: timedelta) -> None:
    """From 2050 on the date has another form."""
    pair = Authority(tmp_path).issue("server", uri="spiffe://" + "x" * 300, lasts=lasts)
    found = expires_at(b"Subject: server\n" + pair.certificate.read_bytes())
    assert found == pytest.approx(in_seconds(lasts), abs=60)


def test_a_chain_ends_with_its_first_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", lasts=YEAR).certificate.read_bytes()
    soon = expires_at(authority.file.read_bytes())
    assert soon == pytest.approx(in_seconds(timedelta(days=1)), abs=60)
    assert expires_at(server + authority.file.read_bytes()) == soon


@pytest.mark.parametrize("body", [b"", b"MAo=", b"!", b"MIIB"])
def test_what_is_none_has_no_end(body: bytes) -> None:
    assert expires_at(b"-----BEGIN CERTIFICATE-----" + body + b"-----END CERTIFICATE-----") is None
    assert expires_at(body) is None
