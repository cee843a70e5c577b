"""`[tracing]`: what it takes, and what `headgate check` and `headgate config` say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate import cli
from headgate.config import ConfigError, load
from headgate.config.settings import TracingSettings

MINIMAL = '[clusters.main]\nbootstrap_servers = "127.0.0.1:9092"\n[tracing]\n'


def settings(folder: Path, text: str, **environ: str) -> TracingSettings:
    file = folder / "headgate.toml"
    file.write_text(MINIMAL + text)
    return load(file, environ).tracing


def test_it_is_off_unless_there_is_a_collector(tmp_path: Path) -> None:
    assert settings(tmp_path, "").endpoint is None


@pytest.mark.parametrize(
    "url",
    ["http://collector:4318", "https://otel.example/base", "http://[::1]:4318/", "http://h"],
)
def test_what_a_collector_is_called(tmp_path: Path, url: str) -> None:
    assert settings(tmp_path, f'endpoint = "{url}"').endpoint == url


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ('endpoint = "collector:4318"', "tracing.endpoint"),
        ('endpoint = "grpc://collector:4317"', "tracing.endpoint"),
        ('endpoint = "http://"', "tracing.endpoint"),
        ('endpoint = "http://h:99999"', "tracing.endpoint"),
        ('endpoint = "http://h:port"', "tracing.endpoint"),
        ('endpoint = "http://h?token=x"', "tracing.endpoint"),
        ('endpoint = "http://h h"', "tracing.endpoint"),
        ('headers = ["authorization"]', "tracing.headers"),
        ('headers = ["a b: c"]', "tracing.headers"),
        ('headers = ["a: b\\nc: d"]', "tracing.headers"),
        ('headers = ["a:"]', "tracing.headers"),
        ('service_name = " "', "tracing.service_name"),
        ("sample_one_in = -1", "tracing.sample_one_in"),
        ("timeout_ms = 1", "tracing.timeout_ms"),
        ('endpoints = "http://h"', "tracing.endpoints"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, option: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)
    assert [one.option for one in caught.value.problems] == [option]


@pytest.mark.parametrize(
    "url",
    [
        "https://me:s3cret@otel.example",
        "http://s3cret@h:4318",
        "http://me:s3cret@h/x?y",
        "http://:s3cret@h",
    ],
)
def test_a_url_has_no_password(tmp_path: Path, url: str) -> None:
    """What names a collector is shown and logged."""
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, f'endpoint = "{url}"')
    (problem,) = caught.value.problems
    assert problem.option == "tracing.endpoint"
    assert "without user and password" in problem.expected
    assert "tracing.headers" in problem.fix
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["me:s3cret@h:4318", "http://me:s3/cret@h"])
def test_a_password_in_what_is_no_url_is_not_shown(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, f'endpoint = "{url}"')
    assert "cret" not in str(caught.value)


def test_headers_are_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = settings(tmp_path, "", HEADGATE_TRACING__HEADERS="authorization: Bearer s3cret,x-a:b:c")
    assert given.header_pairs == {"authorization": "Bearer s3cret", "x-a": "b:c"}
    secret = tmp_path / "secret"
    secret.write_text("authorization: Bearer s3cret\n")
    text = f'endpoint = "http://h"\nheaders_file = "{secret}"\n'
    assert settings(tmp_path, text).header_pairs == {"authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(settings(tmp_path, text))
    assert cli.main(["config", "--config", str(tmp_path / "headgate.toml")]) == 0
    shown = capsys.readouterr().out
    assert "[tracing]" in shown
    assert "s3cret" not in shown


def test_a_wrong_header_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, 'headers = ["Bearer s3cret"]')
    assert "s3cret" not in str(caught.value)


def test_check_command_refuses_a_bad_collector_url(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(MINIMAL + 'endpoint = "collector"\n')
    assert cli.main(["check", "--config", str(file)]) == 2
    assert "tracing.endpoint" in capsys.readouterr().out
