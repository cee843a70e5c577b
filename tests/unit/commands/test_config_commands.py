"""`headgate check`, `config` and `token`, called as the command line does."""

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from headgate.admin.installation import option_view
from headgate.cli import main
from headgate.config import load, load_with_origins
from headgate.config.reference import effective

CONFIG = """
[clusters.main]
bootstrap_servers = "127.0.0.1:9"
security_protocol = "SASL_SSL"
sasl_mechanism = "PLAIN"
sasl_username = "u"

[redis]
url = "redis://user:hush@127.0.0.1:10/0"

[topics."orders.*"]
key = ["/id"]
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADGATE_CLUSTERS__MAIN__SASL_PASSWORD", "hush")
    file = tmp_path / "headgate.toml"
    file.write_text(CONFIG)
    return file


def test_config_shows_values_origins_and_no_secret(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r'^key = \["/id"\] +# headgate.toml:12$', shown, re.MULTILINE)
    assert re.search(r"^port = 8080 +# default$", shown, re.MULTILINE)
    assert re.search(r'^sasl_password = "\*\*\*" +# HEADGATE_CLUSTERS__MAIN__', shown, re.MULTILINE)
    assert 'url = "redis://user:***@127.0.0.1:10/0"' in shown
    assert "hush" not in shown


def test_the_reference_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--reference"]) == 0
    assert "body_max_bytes = " in capsys.readouterr().out


def test_what_config_prints_loads_to_the_same(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["config", "--config", str(config)])
    copy = config.with_name("copy.toml")
    copy.write_text(capsys.readouterr().out)
    secrets = {
        "HEADGATE_REDIS__URL": "redis://user:hush@127.0.0.1:10/0",
        "HEADGATE_CLUSTERS__MAIN__SASL_PASSWORD": "hush",
    }
    assert load(copy, secrets) == load(config, secrets)


def test_each_of_several_secrets_is_masked(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = 'urls = ["redis://a:hush@h:1", "redis://i:2"]'
    config.write_text(
        config.read_text().replace('url = "redis://user:hush@127.0.0.1:10/0"', several)
    )
    assert main(["config", "--config", str(config)]) == 0
    assert 'urls = ["redis://a:***@h:1", "redis://i:2"]' in capsys.readouterr().out


def test_the_command_hides_what_the_control_plane_hides(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADGATE_TRACING__HEADERS", "x-from: https://hush")
    config.write_text(
        f'{CONFIG}cluster = "main"\n[clusters.more]\nbootstrap_servers = "127.0.0.1:9"\n'
        'metrics_urls = ["https://hush@m.example/?token=hush"]\n'
        f'[producers.shop]\ntoken_sha256 = ["{"5" * 64}"]\n'
    )
    assert main(["config", "--config", str(config), "--json"]) == 0, capsys.readouterr().err
    text = capsys.readouterr().out
    shown = {name: one["value"] for name, one in json.loads(text).items()}
    views = map(option_view, effective(load_with_origins(config, os.environ)))
    assert shown == {one["option"]: one["value"] for one in views}
    assert shown["clusters.more.metrics_urls"] == ["https://***@m.example/?token=***"]
    assert shown["producers.shop.token_sha256"] == ["***"]
    main(["config", "--config", str(config)])
    text += capsys.readouterr().out
    assert "hush" not in text
    assert "5555" not in text


def test_config_as_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--config", str(config), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown['topics."orders.*".key'] == {"value": ["/id"], "origin": "headgate.toml:12"}
    assert shown["http.tls_cert_file"] == {"value": None, "origin": "default"}


def test_a_wrong_configuration_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text("[http]\nprot = 1\n")
    assert main(["config", "--config", str(file)]) == 2
    assert "http.prot" in capsys.readouterr().err
    assert main(["check", "--config", str(file)]) == 2
    assert "ERROR http.prot" in capsys.readouterr().out
    assert main(["check", "--config", str(file), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert {each["subject"] for each in report["findings"]} >= {"http.prot"}


def test_check_without_connections(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", str(config)]) == 0
    assert capsys.readouterr().out.startswith("OK    configuration: ")


def test_strict_makes_warnings_count(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADGATE_HTTP__HOST", "0.0.0.0")
    assert main(["check", "--config", str(config)]) == 0
    assert main(["check", "--config", str(config), "--strict"]) == 1
    shown = capsys.readouterr().out
    assert "WARN  auth.mode: " in shown
    assert "      fix: Set auth.mode" in shown


def test_a_token_fits_the_line_that_is_printed_with_it(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", "checkout.eu"]) == 0
    shown = capsys.readouterr()
    (token,) = re.findall(r"^    (hg_\S{43})$", shown.err, re.MULTILINE)
    assert token not in shown.out, "pasting the section never carries the token"
    config.write_text(CONFIG + shown.out)
    producer = load(config, {"HEADGATE_CLUSTERS__MAIN__SASL_PASSWORD": "p"}).producers[
        "checkout.eu"
    ]
    assert producer.token_sha256 == (hashlib.sha256(token.encode()).hexdigest(),)
    main(["token", "checkout.eu"])
    assert token not in capsys.readouterr().err


def test_a_bad_producer_name_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "a b"]) == 2
    assert '"a b"' in capsys.readouterr().err


def test_init_names_the_cluster_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "away.toml"
    file.write_text(
        '[clusters.main]\nbootstrap_servers = "127.0.0.1:1"\n'
        '[topics.deals]\nkey = ["/id"]\nfacts = true\n'
    )
    assert main(["init", "--config", str(file), "--check"]) == 1
    said = capsys.readouterr().out
    assert "clusters.main.bootstrap_servers: 127.0.0.1:1 does not answer" in said
