"""What a spool, and topics that spool, are refused with."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.config import ConfigError, load

MINIMAL = """
[clusters.main]
bootstrap_servers = ["127.0.0.1:9092"]
"""
SPOOL = """
[spool]
path = "/var/lib/headgate/spool"
"""


def problems(tmp_path: Path, text: str) -> str:
    file = tmp_path / "headgate.toml"
    file.write_text(MINIMAL + text)
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    return str(refused.value)


def test_a_topic_may_spool(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(MINIMAL + SPOOL + "[topics.a]\nspool = true\nspool_after_ms = 300\n")
    settings = load(file, {})
    assert settings.topics[0].spool
    assert settings.topics[0].spool_after_ms == 300
    assert settings.spool.max_bytes == 1 << 30


@pytest.mark.parametrize(
    ("text", "option", "words"),
    [
        ("[topics.a]\nspool = true\n", "topics.a.spool", "spool.path set"),
        (
            SPOOL + "[http]\nworkers = 2\n[topics.a]\nspool = true\n",
            "http.workers",
            "do not see each other's",
        ),
        (
            SPOOL + "[topics.a]\nspool = true\nspool_after_ms = 30000\n",
            "topics.a.spool_after_ms",
            "less than http.request_timeout_ms = 30000",
        ),
        (
            SPOOL + '[topics.a]\nspool = true\nkind = "state"\ncoalesce_quiet_ms = 5\n',
            "topics.a.spool",
            "held in Kafka",
        ),
        (
            SPOOL + '[topics.a]\nspool = true\noversize = ["compress", "chunk"]\n',
            "topics.a.spool",
            "one record",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_with_the_fix(
    tmp_path: Path, text: str, option: str, words: str
) -> None:
    found = problems(tmp_path, text)
    assert option in found
    assert words in found
