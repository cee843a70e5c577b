"""Blobs: names that can name nothing else, files that are whole or not there, and bounds."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.blobs.blobs import Blobs, FileBlobs
from headgate.consumer.claims import ClaimChecks, ClaimError
from headgate.model.outcome import Reason, Refused
from headgate.model.oversize import blob_name, is_below, parse_path, root_problem
from support.process.stack import eventually

VALUE = b"x" * 1000
DIGEST = hashlib.sha256(VALUE).hexdigest()


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# ---- names


@pytest.mark.parametrize("topic", ["..", ".", "", "a/b", "a\0", "a b", "../x", "a%2e", "é"])
def test_a_topic_that_could_name_another_place_names_no_blob(topic):
    with pytest.raises(ValueError, match="no blob"):
        blob_name(topic, DIGEST)


@given(st.text(max_size=80))
def test_whatever_a_path_is_it_names_a_blob_or_nothing(path):
    name = parse_path(path)
    assert name is None or name.path == path


@pytest.mark.parametrize(
    "url",
    [
        "/var/blobs", "file://host/x", "file:///", "file:/x", "file:///a/../b", "file:///a?x",
        "file:///a%2f..", "file:///a#b", "http://x/y", "s3://", "s3://B/x", "s3:///x", "file:///a:b",
    ],
)  # fmt: skip
def test_roots_that_are_refused(url):
    assert root_problem(url) is not None


def test_a_consumer_reads_below_its_roots_only():
    root = "file:///srv/blobs"
    inside = f"{root}/{blob_name('t', DIGEST).path}"
    assert is_below(inside, root)
    assert is_below(inside, root + "/")
    for other in (
        f"file:///srv/blobs2/t/{DIGEST[:2]}/{DIGEST}",
        f"{root}/../blobs/t/{DIGEST[:2]}/{DIGEST}",
        f"{root}/t/../t/{DIGEST[:2]}/{DIGEST}",
        f"{root}/etc/passwd",
        f"s3://srv/blobs/t/{DIGEST[:2]}/{DIGEST}",
        inside + "?x",
        inside + "::zip://x",
    ):
        assert not is_below(other, root)


# ---- files


def test_a_file_appears_whole_and_under_its_digest(tmp_path):
    store = FileBlobs(tmp_path)
    store.put(blob_name("documents", DIGEST), VALUE)
    assert files(tmp_path) == [f"documents/{DIGEST[:2]}/{DIGEST}"]
    assert (tmp_path / "documents" / DIGEST[:2] / DIGEST).read_bytes() == VALUE


def test_a_blob_that_is_there_becomes_young_again(tmp_path):
    store, name = FileBlobs(tmp_path), blob_name("documents", DIGEST)
    store.put(name, VALUE)
    os.utime(tmp_path / name.path, (1000, 1000))
    store.put(name, VALUE)
    assert next(store.blobs("documents")).modified_s > time.time() - 60
    assert not store.delete(name, unless_after_s=time.time() - 60)
    os.utime(tmp_path / name.path, (1000, 1000))
    assert store.delete(name, unless_after_s=time.time() - 60)
    assert files(tmp_path) == []
    assert not store.delete(name, unless_after_s=time.time())


def test_a_torn_file_under_the_name_is_written_again(tmp_path):
    store, name = FileBlobs(tmp_path), blob_name("documents", DIGEST)
    store.put(name, VALUE)
    (tmp_path / name.path).write_bytes(VALUE[:10])
    store.put(name, VALUE)
    assert (tmp_path / name.path).read_bytes() == VALUE


def test_what_never_got_a_name_is_swept_when_it_is_old(tmp_path):
    store = FileBlobs(tmp_path)
    pending = store.begin()
    pending.write(b"half of i")
    assert list(store.blobs(".pending")) == []
    assert store.topics() == []
    assert store.sweep_pending(time.time() - 60) == 0
    assert store.sweep_pending(time.time() + 60) == 1
    assert files(tmp_path) == []
    pending.abort()


def test_refreshing_while_it_is_swept_never_loses_the_blob(tmp_path):
    store, name = FileBlobs(tmp_path), blob_name("documents", DIGEST)
    store.put(name, VALUE)
    stop = threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            store.delete(name, unless_after_s=time.time() - 30)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for _ in range(300):
            with suppress(FileNotFoundError):
                os.utime(tmp_path / name.path, (1000, 1000))  # fit to be swept, until it is put
            store.put(name, VALUE)
            end = time.monotonic() + 5
            while not (tmp_path / name.path).exists():  # a sweep may look at it meanwhile
                assert time.monotonic() < end
    finally:
        stop.set()
        sweeper.join()
    assert files(tmp_path) == [name.path]


# ---- the front


async def test_the_front_stores_off_the_loop_and_says_where(tmp_path):
    blobs = Blobs(f"file://{tmp_path}", 2)
    stored = await blobs.put("documents", VALUE)
    assert stored == (f"file://{tmp_path}/documents/{DIGEST[:2]}/{DIGEST}", 1000, DIGEST)
    stream = await blobs.begin()
    for step in (VALUE[:400], VALUE[400:]):
        await stream.write(step)
    assert await stream.commit("other") == (
        f"file://{tmp_path}/other/{DIGEST[:2]}/{DIGEST}", 1000, DIGEST,
    )  # fmt: skip
    aborted = await blobs.begin()
    await aborted.write(VALUE)
    await aborted.abort()
    assert len(files(tmp_path)) == 2
    blobs.close()
    with pytest.raises(Refused):
        await blobs.put("documents", VALUE)


async def test_a_failure_counts_until_a_blob_is_stored_or_for_a_while(tmp_path):
    now = [100.0]
    root = tmp_path / "root"
    blobs = Blobs(f"file://{root}", 1, clock=lambda: now[0])
    assert blobs.health() == (True, "no failure")
    root.write_text("no folder")
    for _ in range(2):
        with pytest.raises(Refused):
            await blobs.put("deals", VALUE)
        now[0] += 12
        assert blobs.health() == (False, "it failed 12 s ago and has stored nothing since")
    root.unlink()
    await blobs.put("deals", VALUE)
    assert blobs.health()[0]
    root.rename(tmp_path / "aside")
    root.write_text("no folder")
    with pytest.raises(Refused):
        await blobs.begin()
    now[0] += 29
    assert not blobs.health()[0]
    now[0] += 1
    assert blobs.health()[0]
    root.unlink()
    stream = await blobs.begin()
    await stream.write(VALUE)
    now[0] -= 5  # within the time of the failure
    assert not blobs.health()[0]
    await stream.commit("deals")
    assert blobs.health()[0]
    blobs.close()


async def test_a_store_that_fails_is_503_and_streams_are_bounded(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    broken = Blobs(f"file://{tmp_path}/file", 1)
    with pytest.raises(Refused) as caught:
        await broken.put("documents", VALUE)
    assert caught.value.failure.reason is Reason.BLOBS_UNAVAILABLE
    assert "/" not in caught.value.failure.detail, "producers need not know where it is"
    with pytest.raises(Refused) as caught:
        await broken.begin()
    assert caught.value.failure.reason is Reason.BLOBS_UNAVAILABLE
    blobs = Blobs(f"file://{tmp_path}/well", 1)
    stream = await blobs.begin()
    with pytest.raises(Refused) as caught:
        await blobs.begin()
    assert caught.value.failure.reason is Reason.OVERLOADED
    await stream.abort()
    await (await blobs.begin()).abort()
    broken.close()
    blobs.close()


async def test_uploads_are_bounded_in_number(tmp_path):
    class Slow(FileBlobs):
        running = limit = 0
        go = threading.Event()

        def put(self, name, value):
            Slow.running += 1
            Slow.limit = max(Slow.limit, Slow.running)
            self.go.wait(10)
            Slow.running -= 1

    blobs = Blobs(f"file://{tmp_path}", 3, lambda url: Slow(tmp_path))
    puts = [asyncio.ensure_future(blobs.put("documents", b"%d" % n)) for n in range(10)]
    await eventually(lambda: Slow.running == 3)
    Slow.go.set()
    await asyncio.gather(*puts)
    assert Slow.limit == 3
    blobs.close()


async def test_who_gives_up_while_it_waits_for_a_thread_leaves_nothing_behind(tmp_path):
    """A store that hangs must not keep what the in-flight budget has got back."""
    may_go, begun = threading.Event(), threading.Event()

    class Hanging(FileBlobs):
        def put(self, name, value):
            begun.set()
            assert may_go.wait(30)
            super().put(name, value)

    blobs = Blobs(f"file://{tmp_path}", 1, lambda url: Hanging(tmp_path))
    first = asyncio.create_task(blobs.put("docs", VALUE))
    assert await asyncio.to_thread(begun.wait, 30)
    value = os.urandom(1000)
    alone = sys.getrefcount(value)
    second = asyncio.create_task(blobs.put("docs", value))
    await asyncio.sleep(0)
    assert sys.getrefcount(value) > alone
    second.cancel()
    await asyncio.wait([second])
    del second
    assert sys.getrefcount(value) == alone
    may_go.set()
    await first
    blobs.close()


# ---- claims


class Claim:
    def __init__(self, url: str, size: int = 1000, digest: str = DIGEST) -> None:
        self.value = b""
        self.headers = [
            ("ce_dataref", url.encode()),
            ("hg-value-bytes", b"%d" % size),
            ("hg-value-sha256", digest.encode()),
        ]


async def test_a_claim_is_fetched_and_checked(tmp_path):
    root = f"file://{tmp_path}"
    blobs = Blobs(root, 1)
    url = (await blobs.put("documents", VALUE)).url
    claims = ClaimChecks("s3://other/x", root)
    assert await claims.value(Claim(url)) == VALUE
    with (tmp_path / "copy").open("wb") as into:
        assert await claims.copy(Claim(url), into) == 1000
    assert (tmp_path / "copy").read_bytes() == VALUE
    for wrong in (Claim(url, 999), Claim(url, 1001), Claim(url, digest="0" * 64), Claim(url + "x")):
        with pytest.raises(ClaimError):
            await claims.value(wrong)
    with pytest.raises(ClaimError, match="none of"):
        await ClaimChecks("file:///elsewhere").value(Claim(url))
    with pytest.raises(ClaimError, match="max_bytes"):
        await ClaimChecks(root, max_bytes=999).value(Claim(url))
    os.unlink(url.removeprefix("file://"))  # noqa: PTH108
    with pytest.raises(ClaimError, match="cannot be read"):
        await claims.value(Claim(url))
    blobs.close()


@pytest.mark.parametrize("name", ["ce_dataref", "hg-value-bytes", "hg-value-sha256"])
async def test_two_headers_of_one_name_are_refused(name):
    claims, claim = ClaimChecks("file:///srv"), Claim("file:///srv/x")
    for where in (0, len(claim.headers)):
        two = Claim("file:///srv/x")
        two.headers.insert(where, (name, dict(claim.headers)[name]))
        with pytest.raises(ClaimError, match="two headers of one name"):
            await claims.value(two)


async def test_others_and_a_producers_own_dataref_are_left_alone():
    claims = ClaimChecks("file:///srv")
    own = Claim("https://example.com/x")
    own.headers, own.value = own.headers[:1], b"own"
    assert await claims.value(own) == b"own"
