"""The page, the JSON and the metrics of generated topics; no Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import skew_world
from headgate_spark.audit.page import page
from headgate_spark.audit.result import document, topic_result
from headgate_spark.audit.textfile import textfile
from headgate_spark.times import shown_time

NAMES = {
    "topic", "window", "records", "bytes", "partitions", "distinct_keys", "keyless_records",
    "by_records", "by_bytes", "max_useful_partitions", "sizes", "top_keys", "what_if",
    "foreign_partitioner", "diagnoses", "recommendations", "producers",
}  # fmt: skip
VOID = {"meta", "br", "hr", "link", "img"}


class Outline(HTMLParser):
    """Collects text and references, and sees that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_names_of_the_contract() -> None:
    figures = skew_world.figures_of(skew_world.data_bomb())
    result = topic_result(figures)
    assert set(result) >= NAMES
    assert set(result["by_bytes"]) == {
        "max_over_mean", "cv", "gini", "effective_partitions", "p_max",
    }  # fmt: skip
    assert set(result["top_keys"][0]) >= {
        "key", "records", "bytes", "record_share", "byte_share", "producer", "run_share", "run_p95",
    }  # fmt: skip
    assert set(result["what_if"][0]) >= {
        "partitions", "max_over_mean_records", "max_over_mean_bytes", "effective_partitions",
        "moved_share",
    }  # fmt: skip
    assert result["diagnoses"] == ["chatty", "large"]
    assert result["window"]["from"] == "2025-06-15T15:10:00.000Z"
    assert {"action", "expected", "cost", "why"} <= set(result["recommendations"][0])
    assert json.loads(json.dumps(result)) == result  # plain numbers and texts only


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    figures = [skew_world.figures_of(make()) for make in (skew_world.data_bomb, skew_world.uniform)]
    outline = Outline()
    text = page(document(figures, 0), figures)
    outline.feed(text)
    assert outline.open == []
    assert all(one.startswith("#") for one in outline.references)
    assert "<script" not in text
    said = " ".join(outline.texts)
    assert "2342565" in said
    assert "coalescing would have removed" in said
    assert "Nothing is wrong with the keys of this topic." in said
    for title in ("Bytes by partition and time", "Lorenz curve", "Other partition counts"):
        assert said.count(title) == 2
    assert "nan" not in text


def test_the_heat_map_ends_where_its_last_column_does() -> None:
    figures = replace(skew_world.figures_of(skew_world.uniform()), to_ms=1_893_456_000_000)
    text = page(document([figures], 0), [figures])
    assert text.count("2030-01-01T00:00:00.000Z") == 1  # what was asked for, not the chart
    minutes = 5 * figures.heat_bytes.shape[1]
    ends_ms = figures.heat_from_ms + minutes * 60_000
    assert f'text-anchor="end">{shown_time(ends_ms)}<' in text


def test_a_topic_without_a_record_has_no_times() -> None:
    figures = replace(skew_world.figures_of(skew_world.uniform()), records=0, from_ms=0, to_ms=0)
    text = page(document([figures], 0), [figures])
    assert "no record in this window" in text
    assert "1970-01-01T00:00:00.000Z to" not in text


def test_keys_are_escaped_in_the_page() -> None:
    evil = b"<script>alert(1)</script>\xff"
    world = skew_world.made("evil", 3, [evil] * 300, 50)
    figures = [skew_world.figures_of(world)]
    result = document(figures, 0)
    assert result["topics"][0]["top_keys"][0]["key"] == "<script>alert(1)</script>\\xff"
    assert "<script" not in page(result, figures)


def test_metrics_have_no_keys() -> None:
    result = document([skew_world.figures_of(skew_world.data_bomb())], 5000)
    text = textfile(result, 5000)
    assert 'headgate_audit_diagnosis{topic="data-bomb",diagnosis="chatty"} 1\n' in text
    assert "headgate_audit_timestamp_seconds 5.0\n" in text
    assert "2342565" not in text
