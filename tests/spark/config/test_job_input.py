"""What a job is told: configuration, times, offsets, Java; errors name the fix."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from headgate.devstack.java import JavaMissingError, find_java
from headgate.kafka.groups import Partition
from headgate.model.times import shown_time
from headgate.replays.spec import FieldError, read_time
from headgate_spark.cli import main
from headgate_spark.job.command_line import JobError, parse_time, reason_of
from headgate_spark.job.options import chosen_topics, must_exist, read_config
from headgate_spark.session.kafka_view import Range, by_offsets, lost, parse_offsets, since
from headgate_spark.session.session import parse_settings
from support.identity.authority import Authority

CONFIG = """
[clusters.main]
bootstrap_servers = ["one:9092", "two:9092"]
[clusters.main-backfill]
bootstrap_servers = "three:9092"
tier = "backfill"
[topics.orders]
[topics."deals.*"]
cluster = "main"
coalesce_quiet_ms = 500
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "headgate.toml"
    file.write_text(text)
    return file


def test_the_configuration_of_the_gateway(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, CONFIG), {})
    assert config.clusters["main"].client == {"bootstrap.servers": "one:9092,two:9092"}
    assert config.clusters["main-backfill"].tier == "backfill"
    orders, none = config.cluster_of("orders"), config.cluster_of("unknown")
    assert orders is not None
    assert (orders.name, none) == ("main", None)


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    environment = {"HEADGATE_CLUSTERS__MAIN_BACKFILL__BOOTSTRAP_SERVERS": "four:9092"}
    config = read_config(write(tmp_path, CONFIG), environment)
    assert config.clusters["main-backfill"].client["bootstrap.servers"] == "four:9092"


def test_a_login_is_told_to_the_java_client(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('a"b\\c\n')
    authorities = Authority(tmp_path).file
    text = (
        '[clusters.main]\nbootstrap_servers = "one:9092"\nsecurity_protocol = "SASL_SSL"\n'
        'sasl_mechanism = "SCRAM-SHA-512"\nsasl_username = "audit"\n'
        f'sasl_password_file = "{secret}"\nssl_cafile = "{authorities}"\n'
    )
    client = read_config(write(tmp_path, text), {}).clusters["main"].client
    assert client["sasl.mechanism"] == "SCRAM-SHA-512"
    assert 'ScramLoginModule required username="audit"' in client["sasl.jaas.config"]
    assert 'password="a\\"b\\\\c";' in client["sasl.jaas.config"]
    assert client["ssl.truststore.type"] == "PEM"


def test_a_bad_pem_file_of_a_cluster_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("job")
    files = {
        "ssl_cafile": authority.file,
        "ssl_certfile": pair.certificate,
        "ssl_keyfile": pair.key,
    }
    config = write(
        tmp_path,
        '[clusters.main]\nbootstrap_servers = "one:9092"\nsecurity_protocol = "SSL"\n'
        + "".join(f'{option} = "{file}"\n' for option, file in files.items()),
    )
    client = read_config(config, {}).clusters["main"].client
    assert client["ssl.keystore.key"] == pair.key.read_text()
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    old_form = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    cases = [(option, b"no PEM", "it is not PEM") for option in files]
    for option, bad, why in (*cases, ("ssl_keyfile", old_form, "takes a key in PKCS #8 only")):
        good = files[option].read_bytes()
        files[option].write_bytes(bad)
        with pytest.raises(JobError, match=f"clusters.main.{option}: '.*' cannot be used: .*{why}"):
            read_config(config, {})
        files[option].write_bytes(good)


def test_a_login_that_the_jobs_do_not_have_is_said(tmp_path: Path) -> None:
    text = '[clusters.main]\nbootstrap_servers = "h:1"\nsasl_mechanism = "OAUTHBEARER"\n'
    (tmp_path / "headgate.toml").write_text(text)
    with pytest.raises(JobError, match=r"clusters.main.sasl_mechanism: the jobs have no OAUTH"):
        read_config(tmp_path / "headgate.toml", {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[clusters.main]\n", "clusters.main.bootstrap_servers is missing"),
        ("[http]\n", r"no \[clusters"),
        ("clusters = 5", r"clusters: write \[clusters.NAME\]"),
        ("[clusters]\nmain = 5", r"clusters: write \[clusters.NAME\]"),
        (f"{CONFIG}[topics]\na = 1", r"topics: write \[topics.NAME\]"),
        (
            "[clusters.main]\nbootstrap_servers = 5",
            r"clusters.main.bootstrap_servers: expected a list such as",
        ),
        ('[clusters.main]\nbootstrap_servers = "a:1"\ntier = "both"', "clusters.main.tier"),
        ("[[", "headgate.toml"),
    ],
)
def test_a_bad_configuration_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(JobError, match=problem) as caught:
        read_config(write(tmp_path, text), {})
    assert caught.value.exit_code == 2


def test_topics_by_name_and_by_glob(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, CONFIG), {})
    there = {"orders", "deals.eu", "deals.us", "foreign", "headgate.held.orders"}
    main = config.clusters["main"]
    assert chosen_topics(None, config, main, there) == ["deals.eu", "deals.us", "orders"]
    assert chosen_topics("deals.*", config, main, there) == ["deals.eu", "deals.us"]
    # a name is taken as it is, also where the configuration has no topic for it
    assert chosen_topics("orders, foreign", config, main, there) == ["foreign", "orders"]


def test_a_name_that_is_not_there_is_refused_and_a_glob_is_not(tmp_path: Path) -> None:
    main_cluster = read_config(write(tmp_path, CONFIG), {}).clusters["main"]
    there = {"orders", "deals.eu"}
    for fine in (None, "", "orders", "orders, deals.*", "none.*"):
        must_exist(fine, main_cluster, there)
    with pytest.raises(JobError, match=r"main has no topic 'order'; it has deals.eu, orders"):
        must_exist("orders, order", main_cluster, there)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", 1_000_000_000_000),
        ("-2h", 1_000_000_000_000 - 7_200_000),
        ("2h", 1_000_000_000_000 - 7_200_000),
        ("1750000200000", 1_750_000_200_000),
        ("2025-06-15T15:10:00Z", 1_750_000_200_000),
        ("2025-06-15T17:10:00+02:00", 1_750_000_200_000),
        ("2004-01-13T04:44:05.077Z", 1_073_969_045_077),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert parse_time("--from", text, 1_000_000_000_000) == expected


def test_bad_times_and_shown_ones() -> None:
    with pytest.raises(JobError, match=r"--from yesterday: expected 2026-01-31T12:00:00Z, "):
        parse_time("--from", "yesterday", 0)
    assert shown_time(1_750_000_200_007) == "2025-06-15T15:10:00.007Z"


@pytest.mark.parametrize(
    "text", ["1750000200000000", "-60000d", "1969-12-31T23:59:59Z", "9" * 30], ids=str
)
def test_times_that_kafka_or_a_calendar_does_not_know(text: str) -> None:
    with pytest.raises(JobError, match=rf"--to {text}: outside of 1970 to 9999"):
        parse_time("--to", text, 1_750_000_200_000)


@pytest.mark.parametrize("text", ["2025-06-15T15:10:00", "2025-06-15", "20250615T1510"])
def test_a_time_without_a_zone_is_refused_as_by_replays(text: str) -> None:
    with pytest.raises(JobError, match=rf"--from {text}: in which zone\? 2025-06-15T.*Z is UTC"):
        parse_time("--from", text, 1_750_000_200_000)
    with pytest.raises(FieldError, match="ISO 8601 with a zone"):
        read_time("from.timestamp", text)


def test_records_may_be_stamped_with_anything() -> None:
    assert shown_time(1_750_000_200_000_000) == "9999-12-31T23:59:59.999Z"  # in microseconds
    assert shown_time(-(2**62)) == "0001-01-01T00:00:00.000Z"
    assert shown_time(-1) == "1969-12-31T23:59:59.999Z"


class Log:
    """One partition that holds offsets 10 to 50, its records a second apart."""

    def starts(self, places: Iterable[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(places, 10)

    def ends(self, places: Iterable[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(places, 50)

    def at(self, places: Iterable[Partition], time_ms: int) -> dict[Partition, int | None]:
        offset = max(10, -(-time_ms // 1000))
        return dict.fromkeys(places, offset if offset < 50 else None)


PLACE = Partition("orders", 0)


@pytest.mark.parametrize(
    ("from_ms", "start"), [(None, 10), (0, 10), (20_000, 20), (20_500, 21), (60_000, 50)]
)
def test_offsets_since_a_time_reach_to_the_end(from_ms: int | None, start: int) -> None:
    assert since(Log(), [PLACE], from_ms) == [Range(PLACE, start, 50)]


def test_offsets_that_were_asked_for() -> None:
    wanted = parse_offsets('{"orders": {"0": [10, 50]}}')
    assert by_offsets(Log(), wanted) == [Range(PLACE, 10, 50)]
    for bad in ((9, 20), (20, 51), (30, 20)):
        with pytest.raises(JobError, match=r"out of range: the log holds 10 to 50"):
            by_offsets(Log(), {PLACE: bad})
    with pytest.raises(JobError, match="--offsets"):
        parse_offsets('{"orders": [1]}')


def test_retention_that_passes_is_seen() -> None:
    assert lost(Log(), [Range(PLACE, 10, 50)]) == []
    assert lost(Log(), [Range(PLACE, 5, 50)]) == ["orders partition 0 began at offset 5, now at 10"]
    assert lost(Log(), [Range(PLACE, 5, 5)]) == []


def test_spark_settings() -> None:
    assert parse_settings(["spark.driver.memory=4g"]) == {"spark.driver.memory": "4g"}
    with pytest.raises(JobError, match="--conf"):
        parse_settings(["memory=4g"])


def java(folder: Path, version: str) -> Path:
    """A Java home whose `java -version` says so."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_java_is_found_or_asked_for(tmp_path: Path) -> None:
    assert find_java({"JAVA_HOME": str(java(tmp_path / "new", "21.0.1"))}).name == "java"
    with pytest.raises(JavaMissingError, match=r"is version 11.* apt-get install openjdk-17"):
        find_java({"JAVA_HOME": str(java(tmp_path / "old", "11.0.2"))})
    with pytest.raises(JavaMissingError, match="none on the PATH"):
        find_java({"PATH": str(tmp_path)})
    for version, is_called in (("1.8.0_392", "8"), ("?", "unknown")):
        with pytest.raises(JavaMissingError, match=f"Spark needs .* version {is_called}"):
            find_java({"JAVA_HOME": str(java(tmp_path / version, version))}, "Spark")


def test_the_command_says_so_before_spark_does(tmp_path: Path) -> None:
    home = java(tmp_path / "java", "11.0.2")
    command = [sys.executable, "-m", "headgate_spark", "audit", "--out", str(tmp_path / "out")]
    command += ["--config", str(write(tmp_path, CONFIG))]
    roots = ":".join(part for part in sys.path if part.endswith(("gateway", "spark")))
    environment = {**os.environ, "JAVA_HOME": str(home), "PYTHONPATH": roots}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "Spark needs Java 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_spark_that_does_not_start_is_an_error_in_words(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headgate_spark", "audit", "--out", str(tmp_path / "out")]
    command += ["--config", str(write(tmp_path, CONFIG)), "--master", "nonsense"]
    roots = ":".join(part for part in sys.path if part.endswith(("gateway", "spark")))
    environment = {**os.environ, "PYTHONPATH": roots}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1
    assert "headgate-spark: Spark did not start: " in done.stderr
    assert "Look at --master" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_reason_without_the_stack() -> None:
    java = "An error occurred while calling o1.save.\n: org.Outer: failed\n\tat a.b\n"
    assert reason_of(ValueError(java)) == "org.Outer: failed"
    assert reason_of(ValueError(f"{java}Caused by: org.Inner: too large\n\tat")) == (
        "org.Inner: too large"
    )
    assert reason_of(ValueError("[CODE] plain.\n\tat")) == "[CODE] plain."
    assert reason_of(ValueError()) == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "--config", "none.toml", "--out", "o"],
        ["audit", "--config", "{config}", "--out", "o", "--from", "soon"],
        ["audit", "--config", "{config}", "--out", "o", "--partitions", "0"],
        ["audit", "--config", "{config}", "--out", "o", "--conf", "x"],
        ["audit", "--config", "{config}", "--out", "o", "--offsets", "{}", "--from", "-2h"],
        ["audit", "--config", "{config}", "--out", "out[1]", "--conf", "spark.a=b"],
        ["audit", "--config", "{config}", "--out", "out*", "--conf", "spark.a=b"],
    ],
)
def test_usage_errors_end_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    config = str(write(tmp_path, CONFIG))
    assert main([one.replace("{config}", config) for one in arguments]) == 2
    assert "headgate-spark: " in capsys.readouterr().err


@pytest.mark.parametrize("start", [["--from", "-24h"], ["--from=-24h"], ["--from", "24h"]])
def test_a_time_before_now_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: list[str]
) -> None:
    config = str(write(tmp_path, CONFIG))
    # the next mistake is found, so that this was none
    assert main(["audit", "--config", config, "--out", "o", *start, "--conf", "x"]) == 2
    assert "--conf x" in capsys.readouterr().err


BACKFILL_IS_INGEST = """
[clusters.main]
bootstrap_servers = "127.0.0.1:1"
backfill = "main"
"""


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        (["replay"], CONFIG, "no cluster has a backfill tier: set clusters.<name>.backfill"),
        (["replay"], BACKFILL_IS_INGEST, 'clusters.main.backfill = "main": no [clusters.main]'),
        (["replay", "--patience", "nan"], CONFIG, "--patience nan"),
        (["replay", "--patience", "0"], CONFIG, "--patience 0"),
        (["audit", "--out", "o", "--patience", "nan"], CONFIG, "--patience nan"),
        (["audit", "--out", "o", "--patience", "4"], CONFIG, "--patience 4: seconds, from 5 to"),
        (["audit", "--out", "o", "--patience", "1e7"], CONFIG, "--patience 1e+07: seconds, from"),
        (["mirror", "--interval", "nan"], CONFIG, "--interval nan"),
        (["mirror", "--bytes-per-s", "nan"], CONFIG, "--bytes-per-s nan"),
    ],
)
def test_a_wrong_option_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str, said: str
) -> None:
    assert main([*arguments, "--config", str(write(tmp_path, text))]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"headgate-spark: {said}")
    assert told.count("\n") == 1


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    printed = capsys.readouterr().out
    assert "spark-submit --packages" in printed
    assert "headgate-spark audit --config F --topics" in printed
