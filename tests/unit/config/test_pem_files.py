"""Each bad PEM file is named with its option, what is wrong and the fix: at check and at start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from headgate.config import ConfigError, load_with_origins
from headgate.config.checks import pem_troubles, refuse_bad_pem_files
from headgate.errors_in_words import PemFile, authorities_trouble, key_pair_trouble
from support.identity.authority import Authority, Pair
from support.root import ROOT

Change = Callable[[bytes], bytes]

SECRET = serialization.BestAvailableEncryption(b"secret")
PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER


def key_as(
    encoding: serialization.Encoding,
    form: serialization.PrivateFormat,
    encryption: serialization.KeySerializationEncryption,
) -> Change:
    def change(text: bytes) -> bytes:
        key = serialization.load_pem_private_key(text, None)
        return key.private_bytes(encoding, form, encryption)

    return change


def certificate_der(text: bytes) -> bytes:
    return x509.load_pem_x509_certificate(text).public_bytes(DER)


PKCS8, OLD = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL
KEY_FAULTS: dict[str, tuple[Change, str, str]] = {
    "empty": (lambda _: b"\n", "it is empty", "Give the private key"),
    "text": (lambda _: b"key", "it is not PEM: no line begins with -----BEGIN", "Give the"),
    "der": (key_as(DER, PKCS8, serialization.NoEncryption()), "it is binary", "openssl pkey"),
    "encrypted": (key_as(PEM, PKCS8, SECRET), "its private key has a password", "openssl pkey -in"),
    "encrypted, old form": (key_as(PEM, OLD, SECRET), "its private key has a password", "openssl"),
    "cut": (lambda text: text[:80], "its private key is damaged", "Copy the whole file"),
}
CERTIFICATE_FAULTS: dict[str, tuple[Change, str, str]] = {
    "empty": (lambda _: b"", "it is empty", "Give certificates in PEM"),
    "text": (lambda _: b"certificate", "it is not PEM", "Give certificates in PEM"),
    "der": (certificate_der, "it is binary (DER or PKCS #12), not PEM", "openssl x509 -inform"),
    "cut": (lambda text: text[:200], "a certificate in it is damaged", "Copy the whole file"),
    "one of two cut": (lambda text: text + text[:200], "a certificate in it is damaged", "Copy"),
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("server")


@pytest.mark.parametrize("fault", KEY_FAULTS)
def test_a_bad_key(pair: Pair, fault: str) -> None:
    change, why, fix = KEY_FAULTS[fault]
    pair.key.write_bytes(change(pair.key.read_bytes()))
    certificate, key = PemFile("cert", str(pair.certificate)), PemFile("key", str(pair.key))
    trouble = key_pair_trouble(certificate, key)
    assert trouble is not None
    assert trouble.option == "key"
    assert trouble.detail.startswith(f"{str(pair.key)!r} cannot be used: {why}")
    assert trouble.fix.startswith(fix) or fix in trouble.fix


@pytest.mark.parametrize("fault", CERTIFICATE_FAULTS)
def test_a_bad_certificate_or_authority(authority: Authority, pair: Pair, fault: str) -> None:
    change, why, fix = CERTIFICATE_FAULTS[fault]
    for file in (authority.file, pair.certificate):
        file.write_bytes(change(file.read_bytes()))
    certificate, key = PemFile("cert", str(pair.certificate)), PemFile("key", str(pair.key))
    troubles = {
        "ca": authorities_trouble(PemFile("ca", str(authority.file))),
        "cert": key_pair_trouble(certificate, key),
    }
    for option, trouble in troubles.items():
        assert trouble is not None
        assert trouble.option == option
        assert f"cannot be used: {why}" in trouble.detail
        assert fix in trouble.fix


def test_files_in_each_others_place(authority: Authority, pair: Pair) -> None:
    certificate, key = str(pair.certificate), str(pair.key)
    other = str(authority.issue("other").key)
    for files, option, why in (
        ((key, certificate), "cert", "it has no certificate, only PRIVATE KEY"),
        ((certificate, certificate), "key", "it has no private key, only CERTIFICATE"),
        ((certificate, other), "key", f"it is not the key of cert = {certificate!r}"),
    ):
        trouble = key_pair_trouble(PemFile("cert", files[0]), PemFile("key", files[1]))
        assert trouble is not None
        assert (trouble.option, why in trouble.detail) == (option, True)
    assert key_pair_trouble(PemFile("cert", certificate), PemFile("key", key)) is None


def configuration(folder: Path, authority: Authority) -> tuple[Path, dict[str, Path]]:
    """A configuration with all options that name PEM files, and the file of each one."""
    files: dict[str, Path] = {}

    def authorities(option: str) -> str:
        files[option] = folder / f"{option}.pem"
        files[option].write_bytes(authority.file.read_bytes())
        return str(files[option])

    def certificate(option: str, key_option: str) -> tuple[str, str]:
        made = authority.issue(option)
        files[option], files[key_option] = made
        return str(made.certificate), str(made.key)

    cluster, http, redis = "clusters.main", "http.tls", "redis.urls"
    own = certificate(f"{cluster}.ssl_certfile", f"{cluster}.ssl_keyfile")
    served = certificate(f"{http}_cert_file", f"{http}_key_file")
    known = certificate(f"{redis} (ssl_certfile)", f"{redis} (ssl_keyfile)")
    trusted = authorities(f"{redis} (ssl_ca_certs)").replace(" ", "%20")
    options = f"ssl_ca_certs={trusted}&ssl_certfile={known[0]}&ssl_keyfile={known[1]}"
    text = f"""
        [http]
        tls_cert_file = "{served[0]}"
        tls_key_file = "{served[1]}"
        tls_client_ca_file = "{authorities("http.tls_client_ca_file")}"
        [clusters.main]
        bootstrap_servers = "kafka.invalid:9092"
        security_protocol = "SSL"
        ssl_cafile = "{authorities(f"{cluster}.ssl_cafile")}"
        ssl_certfile = "{own[0]}"
        ssl_keyfile = "{own[1]}"
        [clusters.second]
        bootstrap_servers = "kafka.invalid:9092"
        security_protocol = "SASL_SSL"
        sasl_mechanism = "OAUTHBEARER"
        sasl_oauth_token_url = "https://issuer.invalid/token"
        sasl_oauth_client_id = "gateway"
        sasl_oauth_client_secret = "not a secret"
        sasl_oauth_ca_file = "{authorities("clusters.second.sasl_oauth_ca_file")}"
        [redis]
        urls = ["rediss://one.invalid", "rediss://two.invalid?{options.replace(" ", "%20")}"]
        ssl_cafile = "{authorities("redis.ssl_cafile")}"
        [auth]
        jwt_issuer = "https://issuer.invalid"
        jwt_audience = "headgate"
        jwt_jwks_url = "https://issuer.invalid/keys"
        jwt_jwks_ca_file = "{authorities("auth.jwt_jwks_ca_file")}"
        [topics.orders]
        cluster = "main"
        """
    file = folder / "headgate.toml"
    file.write_text("\n".join(line.strip() for line in text.splitlines()))
    return file, files


def test_each_option_is_named(tmp_path: Path, authority: Authority) -> None:
    file, files = configuration(tmp_path, authority)
    settings, origins = load_with_origins(file, {})
    assert list(pem_troubles(settings)) == []
    for option, pem in files.items():
        good = pem.read_bytes()
        pem.write_bytes(b"no PEM")
        [trouble] = pem_troubles(settings)
        assert trouble.option == option
        assert trouble.detail.startswith(f"{str(pem)!r} cannot be used: it is not PEM")
        assert trouble.fix
        if option.startswith("http."):  # `TlsSnapshot` refuses those
            refuse_bad_pem_files(file, settings, origins)
        else:
            with pytest.raises(ConfigError) as refused:
                refuse_bad_pem_files(file, settings, origins)
            [problem] = refused.value.problems
            assert problem.option == option
            assert problem.origin.startswith("headgate.toml:")
            assert str(pem) in str(problem)
        pem.write_bytes(good)


def run(command: str, file: Path) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "gateway"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = [sys.executable, "-m", "headgate", *command.split(), "--config", str(file)]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode != 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["check", "serve", "monitor", "coalesce"])
def test_commands_name_the_bad_file_and_end(
    tmp_path: Path, authority: Authority, command: str
) -> None:
    file, files = configuration(tmp_path, authority)
    options = ("redis.ssl_cafile", "clusters.main.ssl_keyfile", "auth.jwt_jwks_ca_file")
    for option in options:
        files[option].write_bytes(b"")
    text = run(command, file)
    for option in options:
        lines = [line for line in text.splitlines() if option in line]
        assert any(str(files[option]) in line and "it is empty" in line for line in lines), text
    assert "PEM lib" not in text
    assert "Traceback" not in text
