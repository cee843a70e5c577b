"""A URL of Redis that cannot work is a problem of the configuration, not a traceback later."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from redis.asyncio import connection

from headgate.config import ConfigError
from headgate.config.checks import COMMON, KEEPALIVE, TLS
from headgate.config.load import load

CLUSTER = "[clusters.main]\nbootstrap_servers = 'localhost:9092'\n"
WRONG = [
    ("", "not a URL"),
    ("redis:host:6379", "not a URL"),
    ("http://host", "not a URL"),
    ("REDISS://host", "not a URL"),
    (" redis://host", "not a URL"),
    ("redis://host ", "a blank"),
    ("redis://", "no host"),
    ("redis:///0", "no host"),
    ("redis://:6379", "no host"),
    ("redis://user:hush@/0", "no host"),
    ("redis://[::1", "its host"),
    ("redis://[1::2::3]", "its host"),
    ("redis://a..b", "its host"),
    ("redis://host:port", "its port"),
    ("redis://host:65536", "its port"),
    ("redis://host:0", "its port"),
    ("redis://host:-1", "its port"),
    ("redis://h,other:6379", "several hosts"),
    ("redis://:hush/hush@host", "its port"),
    ("redis://user:12/hush@host", "its database"),
    ("redis://user:12?hush@host", "an option that"),
    ("redis://:hu#sh@host", '"#"'),
    ("redis://:hu%sh@host", '"%"'),
    ("redis://:hush%ff@host", "not UTF-8"),
    ("redis://host/zero", "its database"),
    ("redis://host/-1", "its database"),
    ("redis://host/1/2", "its database"),
    ("redis://host?db=zero", '"db" is not a number'),
    ("redis://host?db=", '"db" is not a number'),
    ("redis://host?color=red", '"color" that means nothing'),
    ("redis://host?socket_connect_timeout=5", "means nothing"),
    ("redis://host?ssl_ca_certs=/ca.pem", "rediss://"),
    ("rediss://host?ssl_cert_reqs=maybe", '"ssl_cert_reqs" is unknown'),
    ("redis://host?sentinel_password=hush", "means nothing"),
    ("unix://", "no path"),
    ("unix://run/redis.sock", "three slashes"),
    ("unix:///run/redis.sock?db=x", '"db" is not a number'),
    ("unix:///run%00/redis.sock", "NUL"),
    ("redis+sentinel://host", "no service"),
    ("redis+sentinel:///service", "no host"),
    ("redis+sentinel://one,,two/service", "no host"),
    ("redis+sentinel://one:x,two/service", "its port"),
    ("redis+sentinel://one,two:99999/service", "its port"),
    ("redis+sentinel://one/service/zero", "its database"),
    ("rediss+sentinel://one/service?color=red", "means nothing"),
]
RIGHT = [
    "redis://host",
    "redis://host/",
    "redis://127.0.0.1:6379/0",
    "redis://[::1]:6379/0",
    "redis://bücher.example",
    "redis://user:p%40ss%2Fw%3Ard@redis_1.internal:6379/3?health_check_interval=5",
    "redis://:p@ss@host",
    "redis://host?db=3&client_name=headgate&socket_timeout=0.5",
    "rediss://host?ssl_ca_certs=%2Fca.pem&ssl_check_hostname=false&ssl_cert_reqs=none",
    "unix:///run/redis.sock",
    "unix://user:hush@/run/redis.sock?db=1&password=hush",
    "redis+sentinel://one:26379,[::1]/service/2?sentinel_password=hush",
    "rediss+sentinel://u:p%40@one,two/my%20service?ssl_ca_certs=%2Fca.pem",
]


def problems(tmp_path: Path, line: str) -> tuple[str, ...]:
    file = tmp_path / "headgate.toml"
    file.write_text(f"{CLUSTER}[redis]\n{line}\n")
    try:
        assert load(file, {}).redis.servers
    except ConfigError as error:
        return tuple(map(str, error.problems))
    return ()


@pytest.mark.parametrize(("url", "said"), WRONG)
def test_a_url_that_cannot_work_is_one_problem_with_its_option_and_the_fix(
    tmp_path: Path, url: str, said: str
) -> None:
    (found,) = problems(tmp_path, f'url = "{url}"')
    assert found.startswith("redis.url (")
    assert said in found
    assert "hush" not in found
    assert found.endswith((".", "sock", "/SERVICE", "[::1]"))
    (of_many,) = problems(tmp_path, f'urls = ["redis://host-1", "{url}"]')
    assert of_many.startswith("redis.urls (")
    assert "number 2 of the list" in of_many
    assert said in of_many


@pytest.mark.parametrize("url", RIGHT)
def test_a_url_that_works_is_taken(tmp_path: Path, url: str) -> None:
    assert problems(tmp_path, f'url = "{url}"') == ()
    assert problems(tmp_path, f'urls = ["redis://host-1", "{url}"]') == ()


def test_what_options_there_are_is_what_connections_take() -> None:
    def named(kind: type) -> set[str]:
        return set(inspect.signature(kind.__init__).parameters)

    assert named(connection.AbstractConnection) >= COMMON
    assert named(connection.Connection) >= KEEPALIVE
    assert named(connection.SSLConnection) >= TLS
