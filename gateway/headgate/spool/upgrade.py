"""Makes this version's file of an earlier version's."""

import sqlite3
from zlib import crc32

from headgate.core.spool.chunk import Label


def upgrade(database: sqlite3.Connection) -> None:
    """From version 1, whose checksums were of a chunk's bytes alone. In a transaction."""
    rows = database.execute(
        'SELECT number, topic, "partition", partitions, count, at_ms, checksum, events '
        "FROM chunks JOIN lanes ON lanes.id = lane"
    )
    for number, *label, checksum, packed in rows:
        if crc32(packed) == checksum:
            found = Label(*label).checksum(packed)
            database.execute("UPDATE chunks SET checksum = ? WHERE number = ?", (found, number))
    rows = database.execute(
        'SELECT number, topic, "partition", count, at_ms, checksum, events '
        "FROM aside JOIN lanes ON lanes.id = lane"
    )
    for number, topic, partition, count, at_ms, checksum, packed in rows:
        if crc32(packed) == checksum:
            found = Label(topic, partition, 0, count, at_ms).checksum(packed)
            database.execute("UPDATE aside SET checksum = ? WHERE number = ?", (found, number))
