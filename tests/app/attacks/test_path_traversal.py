"""Path traversal: no name that a client chose leaves its folder, in blobs, schemas and pages."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headgate.blobs.blobs import FileBlobs
from headgate.config.load import keep_schemas
from headgate.model.oversize import blob_name, is_below, parse_path, root_problem
from headgate.model.policy import TopicPolicy
from headgate.model.schema import Schema
from support.attacks.targets import PORTS, answers, target

DIGEST = "ab" * 32
TOPICS = [
    "..", ".", "../x", "/etc", "a/b", "a\\b", "a%2fb", "%2e%2e", "a\0b", "", "\u2025", "a\n",
    "~", "a:b", "x" * 250, "a?b", "a#b", "C:", "a/../b", "\uff0e\uff0e",
]  # fmt: skip


@pytest.mark.parametrize("topic", TOPICS)
def test_path_traversal_by_the_topic_of_a_blob(tmp_path: Path, topic: str) -> None:
    with pytest.raises(ValueError, match="no blob has the name"):
        blob_name(topic, DIGEST)
    store = FileBlobs(tmp_path / "blobs")
    with pytest.raises(ValueError, match="no blob has the name"):
        list(store.blobs(topic))
    assert parse_path(f"{topic}/ab/{DIGEST}") is None


@pytest.mark.parametrize(
    "digest", ["../" * 21 + "x", "", "AB" * 32, DIGEST + "/", DIGEST[:-1] + "."]
)
def test_path_traversal_by_the_digest_of_a_blob(digest: str) -> None:
    with pytest.raises(ValueError, match="no blob has the name"):
        blob_name("orders", digest)


@pytest.mark.parametrize(
    "url",
    [
        f"file:///blobs/../etc/{DIGEST}",
        f"file:///blobs/orders/../../ab/{DIGEST}",
        f"file:///blobs/orders/%2e%2e/{DIGEST}",
        f"file:///blobs-other/orders/ab/{DIGEST}",
        f"file://host/blobs/orders/ab/{DIGEST}",
        f"file:///blobs/orders/ab/{DIGEST}?x",
        f"file:///blobs/orders/ab/{DIGEST}#x",
        f"file:///blobs//orders/ab/{DIGEST}",
        f"simplecache::file:///blobs/orders/ab/{DIGEST}",
        f"file:///blobs/orders/ab/{DIGEST}::http://host/x",
        f"FILE:///blobs/orders/ab/{DIGEST}",
        f"/blobs/orders/ab/{DIGEST}",
    ],
)
def test_path_traversal_by_the_url_of_a_blob(url: str) -> None:
    assert not is_below(url, "file:///blobs")
    assert is_below(f"file:///blobs/orders/ab/{DIGEST}", "file:///blobs")


@pytest.mark.parametrize(
    "url", ["file:///a/../b", "file://a/b", "file:///a%2f", "s3://a/../b", "/a"]
)
def test_path_traversal_by_the_configured_root(url: str) -> None:
    assert root_problem(url) is not None


def test_path_traversal_by_the_files_that_a_configuration_names(tmp_path: Path) -> None:
    """The configuration includes no file but schemas, which operators name; workers get copies that
    are named by a digest, so that no name leads out of the private folder."""
    schema = Schema(b"true")
    policies = [
        dataclasses.replace(TopicPolicy("t", "main"), schema_file=name, schema=schema)
        for name in ("../../evil.json", "/etc/passwd", "a/b/../c.json", "x" * 3000)
    ]
    folder = tmp_path / "private"
    folder.mkdir()
    keep_schemas(policies, folder)
    assert [one.name for one in tmp_path.iterdir()] == ["private"]
    assert len(list(folder.iterdir())) == len(policies)
    assert {one.suffix for one in folder.iterdir()} == {".json"}


@pytest.mark.parametrize("kind", PORTS)
async def test_path_traversal_by_the_path_of_a_request(tmp_path: Path, kind: str) -> None:
    """No page is a file; what climbs is another page or none, never another topic's."""
    async with target(kind, tmp_path) as to:
        for path in (
            "/../../etc/passwd", "/docs/../../../etc/passwd", "/problems/..%2f..%2fetc%2fpasswd",
            "/problems/%2e%2e", "//etc/passwd", "/v1/topics/..%2f..%2fetc/events",
            "/v1/topics/orders/..%2fevents", "/openapi.json/../../x", "/docs%00.html", "/%5c..%5cx",
        ):  # fmt: skip
            asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            found = await answers(to.port, asked.encode())
            is_home = b"\r\nLocation: /console\r\n" in found.raw  # what is climbed to is `/`
            assert found.statuses[0] in (400, 404, 405) or is_home, path
            assert b"root:" not in found.raw
        assert to.done() == []
