"""The page, the JSON and the metrics of generated topics; no Spark."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from headgate_spark.audit.figures import HeatMap, Keyless, ProducerFigures, TopicFigures
from headgate_spark.audit.job import write_files
from headgate_spark.audit.page import heat_map, minute, page
from headgate_spark.audit.result import document, textfile, topic_result, worst_first
from headgate_spark.job.command_line import JobError
from support.scenarios import skew_world

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
    assert text.count("2030-01-01 00:00") == 1  # what was asked for, not the chart
    ends_ms = figures.heat.from_ms + figures.heat.bytes.shape[1] * figures.heat.stretch_ms
    assert f'text-anchor="end">{minute(ends_ms)}<' in text


def test_a_topic_without_a_record_has_no_times() -> None:
    figures = replace(skew_world.figures_of(skew_world.uniform()), records=0, from_ms=0, to_ms=0)
    text = page(document([figures], 0), [figures])
    assert "no record in this window" in text
    assert "1970-01-01" not in text.partition("Made ")[2][16:]
    assert "<svg" not in text
    assert "Balance" not in text


def test_uneven_records_without_a_key_are_told_on_the_page() -> None:
    load = np.array([900.0, 10.0, 10.0])
    figures = replace(
        skew_world.figures_of(skew_world.uniform(900, partitions=3)),
        keyless_records=920, records=920, keyless=Keyless(load, 1, 1),
    )  # fmt: skip
    result = document([figures], 0)
    (told,) = result["topics"][0]["notes"]
    assert f'<p class="found">{told}</p>' in page(result, [figures])


def test_a_part_of_a_topic_is_told_to_be_one() -> None:
    figures = [skew_world.only(skew_world.figures_of(skew_world.data_bomb()), (2, 11))]
    result = document(figures, 0)
    one = result["topics"][0]
    assert (one["partitions"], one["partitions_read"]) == (12, [2, 11])
    assert (one["what_if"], one["max_useful_partitions"]) == ([], None)
    text = page(result, figures)
    assert "asked for by offsets is judged: partition 2, 11 of 12." in text
    assert "partitions are useful is not known" in text
    assert 'text-anchor="end">11</text>' in text  # the heat map's row
    assert "What if it had other partitions" not in text


WORLDS = (
    skew_world.zipf, skew_world.data_bomb, skew_world.clumped, skew_world.large_values,
    skew_world.foreign, skew_world.uniform,
)  # fmt: skip


@pytest.mark.parametrize("make", WORLDS, ids=[one.__name__ for one in WORLDS])
def test_a_page_names_one_number_of_useful_partitions_by_records_and_one_by_bytes(
    make: Callable[[], skew_world.Dataset],
) -> None:
    figures = [skew_world.figures_of(make())]
    text = page(document(figures, 0), figures)
    assert "cannot help" not in text
    for what in ("records", "bytes"):
        said = re.findall(rf"by {what} (?:at most (\d+)|a (second)) partition", text)
        assert len(set(said)) == 1, said


def keyless(topic: str) -> TopicFigures:
    found = skew_world.figures_of(skew_world.uniform(3000))
    return replace(
        found, topic=topic, top_keys=(), key_buckets=(), distinct_keys=0, keyless_records=3000
    )


def test_a_topic_without_keys_has_no_empty_charts() -> None:
    figures = [keyless("keyless")]
    text = page(document(figures, 0), figures)
    assert "No record has a key" in text
    assert text.count("<svg") == 2
    for gone in ("Heaviest keys", "Other partition counts", "Top keys", "keys by records"):
        assert gone not in text


def test_the_worst_topic_comes_first() -> None:
    made = [skew_world.uniform(), skew_world.zipf(), skew_world.data_bomb()]
    found = worst_first([keyless("a"), *map(skew_world.figures_of, made)])
    assert [one.topic for one in found][:2] == ["data-bomb", "zipf"]


def test_the_heat_map_has_a_scale() -> None:
    heat = np.zeros((3, 200))
    heat[1, 4], heat[1, 5] = 1_200_000, 800_000
    columns = np.pad(heat, ((0, 0), (0, 1))).reshape(3, -1, 3).sum(axis=2)
    text = heat_map("Bytes", HeatMap((0, 7, 2), skew_world.START_MS, 900_000, columns), 3)
    assert ">2 MB</text>" in text
    assert "bytes in 15 minutes, one row for each partition" in text
    labels = "<title>partition 7, 2025-06-15 15:25 to 2025-06-15 15:40: 2 MB</title>"
    assert labels in text


def wide_topic(topic: str, partitions: int = 2000) -> TopicFigures:
    """A topic of many partitions over a month."""
    heat = np.random.default_rng(9).integers(1, 9, (partitions, 2000)).astype(np.float64)
    found = replace(skew_world.figures_of(skew_world.uniform(3000)), topic=topic)
    load = heat.sum(axis=1)
    return replace(found, heat=skew_world.heat_of(heat), load_records=load, load_bytes=load)


def test_a_page_is_bounded_in_rows_columns_and_points() -> None:
    text = page(document([wide_topic("wide")], 0), [wide_topic("wide")])
    assert "one row for each of the 48 fullest of 2,000 partitions" in text
    assert text.count("<title>partition ") <= 48 * 72
    points = [len(one.split()) for one in re.findall('points="([^"]*)"', text)]
    assert max(points) <= 200
    assert len(text) < 1_200_000


def test_a_page_of_many_topics_has_sections_of_the_worst() -> None:
    figures = [
        replace(skew_world.figures_of(skew_world.uniform(300)), topic=f"t-{number}")
        for number in range(130)
    ]
    text = page(document(figures, 0), figures)
    assert text.count("<section") == 100
    assert "Details of the 100 worst are below; audit.json has those of all." in text
    assert '<a href="#t-99">' in text
    assert "<td>t-129</td>" in text
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    sections = set(re.findall('<section id="([^"]*)"', text))
    assert {one.removeprefix("#") for one in outline.references} == sections


def test_many_producers_are_counted_and_the_first_are_listed() -> None:
    found = skew_world.figures_of(skew_world.uniform())
    figures = replace(
        found,
        producers=tuple(ProducerFigures(f"p-{one}", 2, 9) for one in range(100)),
        distinct_producers=12_345,
    )
    result = document([figures], 0)
    assert result["topics"][0]["distinct_producers"] == 12_345
    assert "Of 12,345 producers these 100 have most bytes." in page(result, [figures])


def test_an_empty_key_is_no_blank_row() -> None:
    keys = [b"" if number % 2 else b"key-%d" % number for number in range(4000)]
    figures = [skew_world.figures_of(skew_world.made("empty", 12, keys, 200))]
    result = document(figures, 0)
    assert result["topics"][0]["top_keys"][0]["key"] == ""
    text = page(result, figures)
    assert "<code></code>" not in text
    assert text.count("(the empty key)") >= 3  # finding, chart, table


def test_keys_that_have_next_to_nothing_have_no_bar() -> None:
    bomb, even = (
        skew_world.figures_of(make()) for make in (skew_world.data_bomb, skew_world.uniform)
    )
    assert page(document([bomb], 0), [bomb]).count('class="bar"') == 1
    flat = replace(
        even, top_keys=tuple(one for one in even.top_keys if one.bytes < even.bytes / 2000)
    )
    text = page(document([flat], 0), [flat])
    assert 'class="bar"' not in text
    assert "No key has 0.1% of the bytes." in text


def test_a_topic_of_one_partition_has_no_curve_of_it() -> None:
    figures = [skew_world.figures_of(skew_world.uniform(900, partitions=1), (1,))]
    text = page(document(figures, 0), figures)
    assert "Lorenz curve" not in text
    assert "Other partition counts" not in text
    assert "Bytes by partition and time" in text


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


def write(out: Path, at_ms: int) -> None:
    """A whole result, by way of a folder of its run."""
    figures = [skew_world.figures_of(skew_world.data_bomb())]
    folder = out / f".reading-{at_ms}"
    for table in ("load.parquet", "keys.parquet"):
        (folder / table).mkdir(parents=True)
        (folder / table / "part").write_text(str(at_ms))
    write_files(document(figures, at_ms), figures, folder, out, at_ms)


def result_of(out: Path) -> dict[str, bytes]:
    """All its files, without what a run keeps for itself."""
    names = (one.relative_to(out) for one in out.rglob("*") if one.is_file())
    shown = [one for one in names if not one.parts[0].startswith(".")]
    return {str(one): (out / one).read_bytes() for one in shown}


@contextmanager
def full_disk(max_bytes: int) -> Iterator[None]:
    """No file may grow beyond it: writing fails as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_result_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path, 5000)
    write(tmp_path, 7000)
    found = result_of(tmp_path)
    assert sorted(found) == [
        "audit.json", "headgate-skew.prom", "index.html", "keys.parquet/part", "load.parquet/part",
    ]  # fmt: skip
    assert (found["load.parquet/part"], found["keys.parquet/part"]) == (b"7000", b"7000")
    assert b"headgate_audit_timestamp_seconds 7.0" in found["headgate-skew.prom"]


def test_a_full_disk_is_a_sentence_and_leaves_the_earlier_result(tmp_path: Path) -> None:
    write(tmp_path, 5000)
    before = result_of(tmp_path)
    with (
        full_disk(6000),
        pytest.raises(JobError, match=f"--out {tmp_path} cannot take the result: .*too large"),
    ):
        write(tmp_path, 7000)
    assert result_of(tmp_path) == before


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "index.html" / "mine").mkdir(parents=True)
    with pytest.raises(JobError, match=f"--out {tmp_path} cannot take the result: .*index.html"):
        write(tmp_path, 5000)
