from typing import final

@final
class Records:
    """A record batch under construction.  max_bytes: of the batch, with its header."""

    def __new__(cls, max_bytes: int) -> Records: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of the batch, with its header."""

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        /,
    ) -> bool:
        """Add a record. False: the batch is full and as it was; the first record always fits.

        Raises TypeError, ValueError or AttributeError where a record cannot be encoded.
        """

    def take(self) -> bytearray:
        """Give the batch away: its header, without producer and checksum, and the records."""

def with_body(batch: bytearray, codec: int, body: bytes, /) -> bytearray:
    """The header of a batch, and its records compressed."""

def seal(batch: bytearray, producer_id: int, epoch: int, base_sequence: int, /) -> None:
    """Write what is known last: who produces it, and the checksum over all that follows it."""
