"""Columns of what the jobs write and read as Parquet."""

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

# One row a record in Kafka. key: null = none.  bytes: of key, value and headers.  at_ms: the
# record's timestamp.  producer: null = no `hg-producer` header, or an
# empty one.
FACTS = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("key", BinaryType()),
        StructField("bytes", LongType(), nullable=False),
        StructField("at_ms", LongType(), nullable=False),
        StructField("producer", StringType()),
        StructField("is_tombstone", BooleanType(), nullable=False),
    ]
)

# One row a key: how many records coalescing would have left of it.
KEPT = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("key", BinaryType(), nullable=False),
        StructField("kept", LongType(), nullable=False),
    ]
)

# One row of a sum over hashed keys. kind: see `counting.py`.
SUMS = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("count", IntegerType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("records", LongType(), nullable=False),
        StructField("bytes", LongType(), nullable=False),
        StructField("keys", LongType(), nullable=False),
    ]
)

# One row of a sum over the keys that a producer wrote to one partition. producer: empty = none.
# keyed: records with a key.  records: of them, those that do not lie where Kafka's rule puts
# their key.  keys: of these.  crc32: of these, how many records lie where librdkafka's default
# puts them.  empty: of these, how many have the empty key.
MISPLACED = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("producer", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("keyed", LongType(), nullable=False),
        StructField("records", LongType(), nullable=False),
        StructField("keys", LongType(), nullable=False),
        StructField("crc32", LongType(), nullable=False),
        StructField("empty", LongType(), nullable=False),
    ]
)

# One row of a sum: the misplaced records of a producer that lie right under a partition count.
EARLIER = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("producer", StringType(), nullable=False),
        StructField("count", IntegerType(), nullable=False),
        StructField("records", LongType(), nullable=False),
    ]
)
