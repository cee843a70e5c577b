"""docs/operate/monitor.md says of `headgate top` and of /ready what they are like."""

from __future__ import annotations

import re

import pytest

from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.kafka import lane, topics
from headgate.kafka.options import LaneLimits
from headgate.kafka.topics import ANSWER_TIMEOUT_MS
from headgate.supervisor import control, overview
from headgate.supervisor.overview import InstanceHealth
from headgate.suppression.options import SuppressOptions
from headgate.top.session import _PAGES, _QUIT, _STEPS
from headgate.top.views import _SORTED_COLUMNS, SORT_KEYS, VIEW_KEYS, Sort
from support.pages import DOCS

PAGE = (DOCS / "operate" / "monitor.md").read_text()
TOP = PAGE.partition("## In a terminal")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| `(\w)` \|([^|]*)\|([^|]*)\|$", re.MULTILINE)


def test_every_key_of_top_is_there() -> None:
    letters = {key for key in (*_STEPS, *_PAGES) if len(key) == 1 and key.isalpha()}
    words = {"space"} if " " in _PAGES else set()
    quoted = set(re.findall(r"`(\w+)`", TOP))
    assert {_QUIT, *VIEW_KEYS, *SORT_KEYS, *letters, *words} <= quoted


@pytest.mark.parametrize(("key", "sort"), SORT_KEYS.items())
def test_what_a_key_sorts_by_is_right(key: str, sort: Sort) -> None:
    rows = {row[0]: row[1:] for row in ROW.findall(TOP)}
    events, groups = rows[key]
    columns = [columns.get(sort, "") for columns in _SORTED_COLUMNS.values()]
    producers, topics, of_groups = (column.upper() for column in columns)
    assert set(re.findall(r"`([^`]+)`", events)) == {producers, topics} - {""}
    assert re.findall(r"`([^`]+)`", groups) == ([of_groups] if of_groups else [])


def test_the_fields_of_ready_are_right() -> None:
    shown = re.search(r'^{"status": "ready".*?^$|^{"status": "ready".*?```', PAGE, re.S | re.M)
    assert shown is not None
    fields = set(re.findall(r'"(\w+)": ', shown[0]))
    known = {"status", "workers", "up", "wanted", "dependencies", "ok", "required", "detail"}
    assert fields - {"redis"} == known
    assert {"status", "workers", "dependencies"} <= set(InstanceHealth._fields)


def test_the_times_until_a_failure_is_seen_are_those_of_the_code() -> None:
    table = PAGE.partition("### Time until a failure is seen")[2].partition("\n###")[0]
    kafka, redis = ClusterSettings(bootstrap_servers=("k:9092",)), RedisSettings()
    limits = LaneLimits()
    assert overview._POLL_S == 1  # the parent asks its workers
    assert control._READ_TIMEOUT.total == 3
    assert lane._PROBE_S == 1
    assert ANSWER_TIMEOUT_MS == 3000
    assert limits.stall_ms == 5000
    assert f"`metadata_refresh_ms`, {kafka.metadata_refresh_ms // 1000} s" in table
    assert f"`lane_stall_ms` ({kafka.lane_stall_ms // 1000} s)" in table
    assert f"`redis.timeout_ms` ({redis.timeout_ms / 1000:g} s)" in table
    assert SuppressOptions().tick_s == 1
    assert f"after {overview._HUNG_S:g} s the parent kills it" in table
    answers_s = (ANSWER_TIMEOUT_MS + limits.stall_ms) / 1000
    assert lane._PROBE_S + answers_s < 10
    assert kafka.metadata_refresh_ms / 1000 + topics._PAUSE_S + answers_s + overview._POLL_S <= 20
