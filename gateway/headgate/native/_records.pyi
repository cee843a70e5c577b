from typing import final

@final
class Records:
    """A record batch under construction.  max_bytes: of the batch, with its header."""

    def __new__(cls, max_bytes: int) -> Records: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int:
        """Return the bytes of the batch, with its header."""

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        /,
    ) -> bool:
        """Add a record; the first record always fits.

        Returns:
            False if the batch is full; it is unchanged then.

        Raises:
            TypeError: The record cannot be encoded.
            ValueError: The record cannot be encoded.
            AttributeError: The record cannot be encoded.
        """

    def take(self) -> bytearray:
        """Take the batch: its header, without producer and checksum, and the records."""

def with_body(batch: bytearray, codec: int, body: bytes, /) -> bytearray:
    """Return a batch with its compressed records."""

def seal(batch: bytearray, producer_id: int, epoch: int, base_sequence: int, /) -> None:
    """Write the last fields of a batch: the producer, and the checksum."""
