"""The oversize policy's options: what is refused at the start, and what is in force."""

from pathlib import Path

import pytest

from headgate.config import ConfigError, load_with_origins
from headgate.config.problems import toml_text
from headgate.model.oversize import SplitRule, usable
from headgate.model.policy import TopicPolicy, fingerprint

HEAD = '[clusters.main]\nbootstrap_servers = "127.0.0.1:9092"\n'
BLOBS = '[blobs]\nurl = "file:///srv/blobs"\n'


def topic(tmp_path: Path, text: str, more: str = "") -> TopicPolicy:
    file = tmp_path / "headgate.toml"
    file.write_text(HEAD + more + "[topics.a]\n" + text)
    return load_with_origins(file, {}).settings.topics[0]


@pytest.mark.parametrize(
    ("text", "named", "said"),
    [
        ("oversize = ['reject', 'chunk']", "topics.a.oversize", "can only be the last"),
        ("oversize = ['chunk', 'chunk']", "topics.a.oversize", "once each"),
        ("oversize = ['shrink']", "topics.a.oversize", '"claim-check"'),
        ("oversize = ['chunk']\nkind = 'state'", "topics.a.oversize", "compaction keeps"),
        ("oversize = ['claim-check']", "topics.a.oversize", "Set url in [blobs]"),
        ("oversize = ['split']", "topics.a.split", "missing"),
        ("split = {pointer = '/a', key = '/id'}", "topics.a.split", 'Add "split" to oversize'),
        ("oversize = 'split'\nsplit = {pointer = 'a', key = '/b'}", 'topics.a.split', 'pointer is'),
        ("oversize = ['split']\nsplit = {pointer = '/a', key = ''}", "topics.a.split", "key is"),
        ("oversize = ['split']\nsplit = {pointer = '/a'}", "topics.a.split", "a table such as"),
        ("oversize = ['split']\nsplit = '/a'", "topics.a.split", "a table such as"),
        ("oversize = ['split']\nsplit = {pointer = 1, key = '/id'}", "topics.a.split", "a table"),
    ],
)  # fmt: skip
def test_oversize_strategiess_that_are_refused(
    tmp_path: Path, text: str, named: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        topic(tmp_path, text)
    assert any(said in str(one) for one in caught.value.problems if one.option == named), (
        caught.value
    )


@pytest.mark.parametrize("url", ["/srv", "file://host/a", "file:///a/../b", "https://a/b", "s3://"])
def test_blob_stores_that_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"blobs\.url"):
        topic(tmp_path, "", f'[blobs]\nurl = "{url}"\n')


def test_every_rung_at_once(tmp_path: Path) -> None:
    strategies = "['compress', 'split', 'notify', 'claim-check', 'chunk', 'reject']"
    text = f"oversize = {strategies}\nsplit = {{pointer = '/options', key = '/id'}}"
    policy = topic(tmp_path, text, BLOBS)
    assert policy.split == SplitRule("/options", "/id")
    assert toml_text(policy.split) == '{pointer = "/options", key = "/id"}'
    assert usable(policy.oversize, False)[-1] == "chunk"
    assert usable(policy.oversize, True)[-1] == "claim-check"


def test_another_ladder_is_another_comparison_and_another_limit_is_not() -> None:
    plain = fingerprint(TopicPolicy("a", suppress="raw"))
    assert fingerprint(TopicPolicy("a", suppress="raw", oversize=("split",))) != plain
    assert fingerprint(TopicPolicy("a", suppress="raw", max_bytes=7)) == plain
