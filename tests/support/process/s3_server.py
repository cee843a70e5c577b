"""A real S3 server (moto's) in a process of its own, for one test."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from s3fs import S3FileSystem

from headgate.devstack.child import Child
from support.process.stack import free_port

BUCKET = "blobs"


class Bucket(NamedTuple):
    """environment: where clients find it."""

    server: Child
    environment: Mapping[str, str]


@contextmanager
def running_bucket(log: Path) -> Iterator[Bucket]:
    """A server with an empty bucket."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = Child("moto", command, log)
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    S3FileSystem.clear_instance_cache()  # of the server that another test of this process had
    try:
        server.wait_until(lambda: _made(port), 90)
        yield Bucket(server, environment)
    finally:
        server.kill()


def _made(port: int) -> bool:
    """Make the bucket, by hand."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("PUT", f"/{BUCKET}")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
