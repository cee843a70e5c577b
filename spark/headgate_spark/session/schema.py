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
