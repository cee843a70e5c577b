"""The blob store as a bucket of a real S3 server (moto's, in a process of its own)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.blobs.blobs import Blobs, ObjectBlobs
from headgate.consumer.claims import ClaimChecks
from headgate.devstack.child import Child
from headgate.model.outcome import Reason, Refused
from headgate.model.oversize import blob_name
from support.process.s3_server import running_bucket


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    with running_bucket(tmp_path / "moto.log") as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running.server


async def test_values_are_stored_streamed_read_and_removed(bucket):
    blobs, claims = Blobs("s3://blobs/some/prefix", 2), ClaimChecks("s3://blobs/some/prefix")
    value = b"x" * 1000
    stored = await blobs.put("documents", value)
    assert await blobs.put("documents", value) == stored

    class Claim:
        value = b""
        headers = (
            ("ce_dataref", stored.url.encode()), ("hg-value-bytes", b"1000"),
            ("hg-value-sha256", stored.sha256.encode()),
        )  # fmt: skip

    assert await claims.value(Claim()) == value
    stream = await blobs.begin()
    for _ in range(12):
        await stream.write(b"y" * 1_000_000)  # three parts
    streamed = await stream.commit("documents")
    assert streamed.sha256 == hashlib.sha256(b"y" * 12_000_000).hexdigest()
    await (await blobs.begin()).abort()
    store = ObjectBlobs("s3://blobs/some/prefix")
    assert store.topics() == ["documents"]
    assert {one.name.digest: one.size for one in store.blobs("documents")} == {
        stored.sha256: 1000, streamed.sha256: 12_000_000,
    }  # fmt: skip
    name = blob_name("documents", stored.sha256)
    assert not store.delete(name, unless_after_s=time.time() - 60)
    assert store.delete(name, unless_after_s=time.time() + 60)
    bucket.kill()
    with pytest.raises(Refused) as caught:
        await blobs.put("documents", b"z")
    assert caught.value.failure.reason is Reason.BLOBS_UNAVAILABLE
    blobs.close()
