"""`headgate check` looks at the files and folders that options name."""

from __future__ import annotations

import dataclasses
import os
import pwd
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headgate.check.local import judge_modes, judge_paths, judge_settings
from headgate.check.rules import Finding, Level
from headgate.config import load_with_origins
from headgate.config.backend_settings import BlobSettings, ClusterSettings, SpoolSettings
from headgate.config.settings import HttpSettings, LogSettings, MonitorSettings, Settings
from support.root import ROOT


def judged(settings: Settings) -> dict[str, Finding]:
    """What is wrong, by the option."""
    findings = judge_paths(settings)
    return {one.subject: one for one in findings if one.level is not Level.OK}


def paths(root: Path) -> Settings:
    return Settings(
        spool=SpoolSettings(path=str(root / "spool" / "deep")),
        blobs=BlobSettings(url=f"file://{root / 'blobs'}"),
        logs=LogSettings(installation_file=str(root / "installation.log")),
        monitor=MonitorSettings(state_file=str(root / "monitor.json")),
    )


_NO_LABEL = "no line begins with -----BEGIN"
WRITTEN = {"spool.path": Level.ERROR, "blobs.url": Level.ERROR,
           "logs.installation_file": Level.WARN, "monitor.state_file": Level.WARN}  # fmt: skip


def test_what_can_be_made_is_no_finding_and_is_not_made(tmp_path: Path) -> None:
    assert judged(paths(tmp_path)) == {}
    assert list(tmp_path.iterdir()) == []


def test_the_user_that_was_tried_is_named(tmp_path: Path) -> None:
    (finding,) = judge_paths(paths(tmp_path))
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert (finding.level, finding.subject) == (Level.OK, "paths")
    assert f"4 files and folders can be used by {user}" in finding.text
    assert ("run the check as the gateway's user" in finding.text) == (os.geteuid() == 0)
    assert list(judge_paths(Settings())) == []


def _check_as(user: int, config: Path) -> str:
    """What `headgate check` prints when a user without rights runs it."""
    command = f"main(['check', '-c', {str(config)!r}])"
    code = (
        "import contextlib, io, os, sys; from headgate.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): {command}\n"  # imports while it may
        f"os.setgroups([]); os.setgid({user}); os.setuid({user}); sys.exit({command})"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "gateway"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_each_path_is_tried_as_the_user_that_runs_the_check() -> None:
    """Files of an earlier start as root, and folders that only root may write."""
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as made:  # pytest's own folders are closed to others
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "spool").mkdir()
        (folder / "logs").mkdir()
        for name in ("spool/spool.db", "logs/installation.log"):
            (folder / name).write_text("")
        for name in ("spool", "logs"):
            os.chown(folder / name, nobody, nobody)
        (folder / "key.pem").write_text("")
        (folder / "key.pem").chmod(0o600)
        config = folder / "headgate.toml"
        config.write_text(
            f'[clusters.main]\nbootstrap_servers = "k:9092"\n[topics.orders]\n'
            f'[spool]\npath = "{folder}/spool"\n[blobs]\nurl = "file://{folder}/blobs"\n'
            f'[logs]\ninstallation_file = "{folder}/logs/installation.log"\n'
            f'[http]\ntls_cert_file = "{folder}/key.pem"\ntls_key_file = "{folder}/key.pem"\n'
        )
        shown = _check_as(nobody, config)
    for option, path in (
        ("spool.path", "spool/spool.db cannot be written by the user nobody"),
        ("logs.installation_file", "logs/installation.log cannot be written by the user nobody"),
        ("blobs.url", "nobody may not write in"),
        ("http.tls_cert_file", "key.pem' cannot be used: the user nobody has no permission"),
    ):
        assert any(option in line and path in line for line in shown.splitlines()), shown


def test_nothing_can_be_made_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = judged(paths(tmp_path / "file"))
    assert {subject: finding.level for subject, finding in found.items()} == WRITTEN
    for finding in found.values():
        assert f"{tmp_path / 'file'} is not a folder" in finding.text
        assert finding.fix


def test_a_folder_for_a_file_is_not_made_by_the_gateway(tmp_path: Path) -> None:
    found = judged(paths(tmp_path / "not-there"))
    assert found.keys() == {"logs.installation_file", "monitor.state_file"}


def test_nothing_can_be_made_where_the_file_system_takes_nothing() -> None:
    found = judged(paths(Path("/proc")))  # root may write there, as far as its rights say
    assert {subject: finding.level for subject, finding in found.items()} == WRITTEN


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_nothing_can_be_made_where_the_user_may_not_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert judged(paths(tmp_path)).keys() == WRITTEN.keys()
    finally:
        tmp_path.chmod(0o700)


def test_a_dangling_link_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "spool").symlink_to(tmp_path / "nowhere")
    assert judged(paths(tmp_path)).keys() == {"spool.path"}


def test_files_for_tls_that_cannot_be_used_are_errors(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    cluster = ClusterSettings(
        ("kafka:9092",),
        security_protocol="SSL",
        ssl_cafile=str(wrong),
        ssl_certfile=str(wrong),
        ssl_keyfile=str(wrong),
        sasl_oauth_ca_file=str(wrong),
    )
    http = HttpSettings(
        tls_cert_file=str(wrong), tls_key_file=str(wrong), tls_client_ca_file=str(wrong)
    )
    settings = Settings(http=http, clusters={"main": cluster})
    settings = dataclasses.replace(
        settings,
        redis=dataclasses.replace(settings.redis, ssl_cafile=str(wrong)),
        auth=dataclasses.replace(settings.auth, jwt_jwks_ca_file=str(wrong)),
    )
    found = judged(settings)
    assert found.keys() == {
        "http.tls_client_ca_file", "http.tls_cert_file", "redis.ssl_cafile",
        "auth.jwt_jwks_ca_file", "clusters.main.ssl_cafile", "clusters.main.sasl_oauth_ca_file",
        "clusters.main.ssl_certfile",
    }  # fmt: skip
    assert {finding.level for finding in found.values()} == {Level.ERROR}
    for finding in found.values():
        assert finding.text == f"{str(wrong)!r} cannot be used: it is not PEM: {_NO_LABEL}"
        assert finding.fix == "Give certificates in PEM."


def test_keys_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    authorities = ssl.get_default_verify_paths().cafile
    http = HttpSettings(tls_cert_file=authorities, tls_key_file=str(tmp_path))
    found = judged(Settings(http=http))
    assert "http.tls_key_file" in found


def test_a_file_with_keys_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    settings = Settings()
    auth = dataclasses.replace(settings.auth, jwt_jwks_url=f"file://{tmp_path}/keys.json")
    found = judged(dataclasses.replace(settings, auth=auth))
    assert found.keys() == {"auth.jwt_jwks_url"}


@pytest.mark.parametrize(
    ("mode", "words"),
    [(0o644, "can read"), (0o666, "can change"), (0o640, None), (0o600, None)],
)
def test_a_secret_that_every_user_can_read(tmp_path: Path, mode: int, words: str | None) -> None:
    password = tmp_path / "kafka-password"
    password.write_text("secret")
    password.chmod(mode)
    file = tmp_path / "headgate.toml"
    file.write_text(
        f'[clusters.main]\nbootstrap_servers = "a:1"\nsecurity_protocol = "SASL_SSL"\n'
        f'sasl_mechanism = "PLAIN"\nsasl_username = "u"\nsasl_password_file = "{password}"\n'
    )
    findings = [
        each
        for each in judge_settings(*load_with_origins(file, {}))
        if each.subject == "clusters.main.sasl_password_file"
    ]
    assert len(findings) == (words is not None)
    for finding in findings:
        assert finding.level is Level.WARN
        assert f"{words} {password} (mode {mode:04o})" in finding.text
        assert finding.fix == f"Close it: chmod o= {password}"


def test_a_private_key_that_every_user_can_read(tmp_path: Path) -> None:
    key = tmp_path / "tls.key"
    key.write_text("-----BEGIN PRIVATE KEY-----")
    key.chmod(0o644)
    settings = Settings(http=HttpSettings(tls_cert_file=str(key), tls_key_file=str(key)))
    subjects = [each.subject for each in judge_modes(settings, {})]
    assert subjects == ["http.tls_key_file"]
