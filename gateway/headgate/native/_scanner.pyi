"""Reads bodies of JSON documents in one pass; only in the compiled build (setup.py).

It is a fast accept: whatever is unusual in any document makes the whole call return None, and
`core.formats.decode`, `core.formats.jsontext` and `core.topics.route` decide. What is accepted,
they would have read just the same."""

from typing import final

# Values, keys, partitions and digests (16 bytes), an item for each document. Without a key rule
# there are no keys and partitions, without a digest key no digests. A digest is None where the
# ordinary way has to make the canonical form.
Scanned = tuple[list[bytes], list[bytes] | None, list[int] | None, list[bytes | None] | None]

@final
class Scanner:
    """The rules of one topic.

    pointers: the names that lead to each part of the key, from the document on; none: no key rule.
    At most 4 parts and 16 different names on the way to them.
    max_depth: of arrays and objects in one another; beyond 512 nothing is accepted.
    digest_key: up to 64 bytes; None: no digests.  digest_prefix: what is digested before each
    value; both as `core.content.Digester` uses them.
    ignore: digests are of canonical forms (`core.formats.canonical`) without what these pointers
    name; None: of the values. At most 16 different names in them.  max_form_bytes: longer documents
    have no form here.  max_key_bytes: of a key with its joints; unbounded if not given.
    Raises ValueError: partitions below 1, a digest_key that is too long, more pointers or names,
    a pointer to the document, or one that is another's beginning.
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
        """The documents of an NDJSON body, each value a whole line; None for more than `most`."""

    def elements(self, body: bytes, most: int, /) -> Scanned | None:
        """The documents of a JSON array, each value an exact slice; None for more than `most`."""

    def one(self, body: bytes, /) -> Scanned | None:
        """The one JSON object that the body is, whose value is all of it."""
