"""Names of blobs: content-addressed below their topic, and what may be a blob's URL at all.

file:///var/lib/headgate/blobs/documents/3f/3f79bb7b435b0521...   root/topic/two digits/sha256
"""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

SCHEMES = ("file", "s3")
_TOPIC = re.compile(r"[A-Za-z0-9._\-]{1,249}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLAIN = re.compile(r"[\w./\-+=@,~ ]*")  # no %, ?, #, : or control signs: nothing to decode twice


class BlobName(NamedTuple):
    """topic: of the event.  digest: SHA-256 in hexadecimal."""

    topic: str
    digest: str

    @property
    def path(self) -> str:
        """Below the root."""
        return f"{self.topic}/{self.digest[:2]}/{self.digest}"


def blob_name(topic: str, digest: str) -> BlobName:
    """Raises ValueError for a topic or digest that could name anything else."""
    if not _TOPIC.fullmatch(topic) or topic in (".", "..") or not _DIGEST.fullmatch(digest):
        raise ValueError(f"no blob has the name {topic!r} / {digest!r}")
    return BlobName(topic, digest)


def parse_path(path: str) -> BlobName | None:
    """The name of a blob from its path below the root; None for anything that is not one."""
    parts = path.split("/")
    if len(parts) != 3 or not _DIGEST.fullmatch(parts[2]) or parts[1] != parts[2][:2]:
        return None
    try:
        return blob_name(parts[0], parts[2])
    except ValueError:
        return None


def root_problem(url: str) -> str | None:
    """What is wrong with the root of a blob store, or None."""
    split = urlsplit(url)
    if split.scheme not in SCHEMES or not url.startswith(f"{split.scheme}://"):
        return "must begin with file:/// or s3://"
    if split.query or split.fragment or not _PLAIN.fullmatch(split.path):
        return "must be a plain path, without escapes, query or fragment"
    if any(part in (".", "..") for part in split.path.split("/")):
        return "must not have . or .. in it"
    if split.scheme == "file" and (split.netloc or len(split.path) < 2):
        return "must be an absolute path: file:///folder"
    if split.scheme == "s3" and not re.fullmatch(r"[a-z0-9][a-z0-9.\-]{1,62}", split.netloc):
        return "must name a bucket: s3://bucket/prefix"
    return None


def is_below(url: str, root: str) -> bool:
    """Whether a URL names a blob below this root, and nothing else by any reading of it."""
    base = root.rstrip("/") + "/"
    return url.startswith(base) and parse_path(url[len(base) :]) is not None
