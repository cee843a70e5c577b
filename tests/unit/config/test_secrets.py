"""Nothing that holds a secret shows it: texts of values end in logs and in tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.config import ConfigError, load
from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.config.settings import Settings
from headgate.kafka.options import cluster_options
from headgate_spark.job.options import JobConfig, read_config
from support.identity.authority import Authority

SECRET = "hush"
CLUSTER = ClusterSettings(bootstrap_servers=("h:1",), sasl_username="u", sasl_password=SECRET)


def job_config(folder: Path) -> JobConfig:
    """As the Spark jobs read it."""
    pair = Authority(folder).issue("job")
    for name, text in (
        ("password", ""),
        ("cert.pem", pair.certificate.read_text()),
        ("key.pem", pair.key.read_text()),
    ):
        (folder / name).write_text(f"{text}{SECRET}\n")
    file = folder / "headgate.toml"
    file.write_text(
        '[clusters.main]\nbootstrap_servers = ["h:1"]\nsecurity_protocol = "SASL_SSL"\n'
        f'sasl_mechanism = "PLAIN"\nsasl_password_file = "{folder}/password"\n'
        f'ssl_certfile = "{folder}/cert.pem"\nssl_keyfile = "{folder}/key.pem"\n'
    )
    return read_config(file, {})


@pytest.mark.parametrize(
    "made",
    [
        lambda _: CLUSTER,
        lambda _: RedisSettings(url=f"redis://u:{SECRET}@h"),
        lambda _: Settings(clusters={"main": CLUSTER}),
        lambda _: cluster_options(CLUSTER),
        lambda folder: job_config(folder),
        lambda folder: job_config(folder).clusters["main"],
        lambda folder: job_config(folder).clusters["main"].connection,
    ],
    ids=["cluster", "redis", "settings", "options", "jobs", "jobs' cluster", "jobs' connection"],
)
def test_a_secret_is_not_shown(made: Callable[[Path], object], tmp_path: Path) -> None:
    assert SECRET not in repr(made(tmp_path))


@pytest.mark.parametrize(
    ("text", "environ", "option"),
    [
        ('[redis]\nurl = "redis://gateway:***@h"\n', {}, "redis.url"),
        ('[redis]\nurls = ["redis://h", "redis://***@h"]\n', {}, "redis.urls"),
        ("", {"HEADGATE_CLUSTERS__MAIN__SASL_PASSWORD": "***"}, "clusters.main.sasl_password"),
    ],
)
def test_stars_from_a_shown_configuration_are_no_secret(
    tmp_path: Path, text: str, environ: dict[str, str], option: str
) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(
        '[clusters.main]\nbootstrap_servers = "h:1"\nsecurity_protocol = "SASL_SSL"\n'
        'sasl_mechanism = "PLAIN"\nsasl_username = "u"\n'
        + ("" if environ else 'sasl_password = "right"\n')
        + text
    )
    with pytest.raises(ConfigError) as refused:
        load(file, environ)
    [problem] = [each for each in refused.value.problems if each.option == option]
    assert "*** stands for a hidden value" in problem.given
    assert "headgate config" in problem.given
    assert problem.fix
