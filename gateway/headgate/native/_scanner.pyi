"""A scanner that reads bodies of JSON documents in one pass; only in the compiled build (setup.py).

The scanner is a fast path: if any document is unusual, the whole call returns None, and
`formats.decode`, `formats.json_text` and `ingest.records` decide. For accepted
bodies they would have the same result."""

from typing import final

# Values, keys, partitions and digests (16 bytes), one item for each document. Without a key rule
# there are no keys and partitions; without a digest key there are no digests. A digest is None if
# the slow path must build the canonical form.
Scanned = tuple[list[bytes], list[bytes] | None, list[int] | None, list[bytes | None] | None]

@final
class Scanner:
    """A scanner with the rules of one topic.

    Args:
        pointers: Names that lead to each part of the key, from the document on; empty without a
            key rule. At most 4 parts and 16 different names.
        partitions: Partition count of the topic.
        max_depth: Largest depth of arrays and objects, at most 512.
        max_value_bytes: Largest value, in bytes.
        digest_key: Key of the digests, up to 64 bytes; None without digests.
        digest_prefix: Bytes to digest before each value. Key and prefix are those of
            `model.content.Digester`.
        ignore: Pointers to members that canonical forms (`model.content.canonical`) leave out, with
            at most 16 different names. The digests are of these forms; if None, of the values.
        max_form_bytes: Longest document with a canonical form here, in bytes.
        max_key_bytes: Largest key with its separators, in bytes; unbounded by default.

    Raises:
        ValueError: partitions is below 1, digest_key is too long, there are too many pointers or
            names, or a pointer leads to the document or is the beginning of another one.
    """

    def __init__(
        self,
        pointers: tuple[tuple[bytes, ...], ...],
        partitions: int,
        max_depth: int,
        max_value_bytes: int,
        digest_key: bytes | None,
        digest_prefix: bytes = b"",
        ignore: tuple[tuple[bytes, ...], ...] | None = None,
        max_form_bytes: int = 0,
        max_key_bytes: int = ...,
    ) -> None: ...
    def lines(self, body: bytes, most: int, /) -> Scanned | None:
        """Scan an NDJSON body, each value a full line; return None for more than `most`."""

    def elements(self, body: bytes, most: int, /) -> Scanned | None:
        """Scan a JSON array, each value an exact slice; return None for more than `most`."""

    def one(self, body: bytes, /) -> Scanned | None:
        """Scan a body that is one JSON object, whose value is the full body."""
