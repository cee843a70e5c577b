from typing import final

@final
class Records:
    """A record batch under construction.  most_bytes: of the batch, with its header."""

    def __new__(cls, most_bytes: int) -> Records: ...
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
        headers: list[tuple[str, bytes]],
        /,
    ) -> bool:
        """Add a record. False: the batch is full and as it was; the first record always fits.

        Raises TypeError, ValueError or AttributeError where a record cannot be encoded.
        """

    def take(self) -> bytearray:
        """Give the batch away: its header, without producer and checksum, and the records."""
