"""A TLS file that cannot be used is named: its option, its path, why, and the fix."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from headgate.config.problems import ConfigError
from headgate.config.settings import HttpSettings
from headgate.kafka.access import ClusterAccess, client_arguments
from headgate.supervisor.active_config import TlsFilesError, TlsSnapshot
from support.identity.authority import Authority, Pair


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
        (pair.certificate, b"no PEM", "http.tls_cert_file", "it has no certificate in PEM"),
        (pair.certificate, None, "http.tls_cert_file", "the file does not exist"),
        (pair.key, other, "http.tls_key_file", "it is not the key of http.tls_cert_file = "),
        (pair.key, b"", "http.tls_key_file", "it has no private key in PEM"),
        (pair.key, locked(pair), "http.tls_key_file", "or the key has a password"),
        (authority.file, b"", "http.tls_client_ca_file", "it has no certificate in PEM"),
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
        assert str(file) in problem.found
        assert why in problem.found
        assert problem.fix
        file.write_bytes(good)
    assert reloaded.accept() is None, "the files are those in force"


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
