"""The ways in which callers are known, as the configuration has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.config import ConfigError, Settings, load
from support.identity.authority import Authority

CLUSTER = '[clusters.main]\nbootstrap_servers = "a:1"\n'
JWT = (
    '[auth]\nmode = "jwt"\njwt_issuer = "https://id.example"\njwt_audience = "headgate"\n'
    'jwt_jwks_url = "https://id.example/keys"\n'
)


def settings(folder: Path, text: str, **environ: str) -> Settings:
    file = folder / "headgate.toml"
    file.write_text(CLUSTER + text)
    return load(file, environ)


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ('"token"', ("token",)),
        ('["token"]', ("token",)),
        ('["token", "jwt"]', ("token", "jwt")),
        ('"none"', ("none",)),
    ],
)
def test_auth_mode_is_one_name_or_a_list(
    tmp_path: Path, written: str, mode: tuple[str, ...]
) -> None:
    found = settings(tmp_path, JWT.replace('"jwt"', written)).auth
    assert found.mode == mode
    assert found.is_open is (mode == ("none",))


def test_ways_by_the_environment(tmp_path: Path) -> None:
    assert settings(tmp_path, JWT, HEADGATE_AUTH__MODE="token,jwt").auth.mode == ("token", "jwt")


@pytest.mark.parametrize(
    ("text", "named", "said"),
    [
        ("[auth]\nmode = []\n", "auth.mode", "one or several"),
        ('[auth]\nmode = ["token", "token"]\n', "auth.mode", "different"),
        ('[auth]\nmode = ["none", "token"]\n', "auth.mode", '"none" alone'),
        ('[auth]\nmode = "mtls"\n', "http.tls_client_ca_file", "missing"),
        ('[auth]\nmode = "jwt"\n', "auth.jwt_issuer", "missing"),
        ('[auth]\nmode = "jwt"\n', "auth.jwt_audience", "missing"),
        ('[auth]\nmode = "jwt"\n', "auth.jwt_jwks_url", "missing"),
        (JWT + "jwt_algorithms = []\n", "auth.jwt_algorithms", "missing"),
        (JWT + 'jwt_algorithms = ["HS256"]\n', "auth.jwt_algorithms", '"RS256" or'),
        (JWT + 'jwt_algorithms = ["none"]\n', "auth.jwt_algorithms", '"RS256" or'),
        (JWT.replace("https://id.example/k", "http://id.example/k"), "auth.jwt_jwks_url", "https"),
        (JWT.replace("https://id.example/k", "ftp://id.example/k"), "auth.jwt_jwks_url", "https"),
        (JWT.replace("https://id.example/k", "file://host/k"), "auth.jwt_jwks_url", "file:///"),
        (JWT.replace("https://id.example/k", "https:///k"), "auth.jwt_jwks_url", "https"),
        (JWT + 'jwt_jwks_ca_file = "/nowhere"\n', "auth.jwt_jwks_ca_file", "does not exist"),
        (JWT + "jwt_keys_max_age_ms = 1000\n", "auth.jwt_keys_max_age_ms", "at least 300000"),
        ('[http]\ntls_client_ca_file = "{ca}"\n', "http.tls_client_ca_file", "tls_cert_file"),
        ('[http]\ntls_client_ca_file = "/nowhere"\n', "http.tls_client_ca_file", "does not exist"),
        ('[http]\ntls_min_version = "1.1"\n', "http.tls_min_version", '"1.2" or "1.3"'),
        (
            '[producers.a]\ncertificate_names = ["x"]\n[producers.b]\ncertificate_names = ["x"]\n',
            "producers.b.certificate_names",
            '"x" is a name of "a"',
        ),
        (
            '[producers.a]\ncertificate_names = ["b"]\n[producers.b]\n',
            "producers.b.certificate_names",
            '"b" is a name of "a"',
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, text: str, named: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text.replace("{ca}", str(Authority(tmp_path).file)))
    found = [str(one) for one in caught.value.problems if one.option == named]
    assert said in "\n".join(found), caught.value


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/k", "http://localhost/k", "file:///etc/k"])
def test_keys_from_this_machine(tmp_path: Path, url: str) -> None:
    text = JWT.replace("https://id.example/keys", url)
    assert settings(tmp_path, text).auth.jwt_jwks_url == url


def test_what_to_install_for_signed_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.config.checks.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r'pip install "headgate\[jwt\]"'):
        settings(tmp_path, JWT)
