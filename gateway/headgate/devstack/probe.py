"""Asks a broker for its cluster's live brokers over a plain socket, without a Kafka client.

Blocking and self-contained, so that a start can be awaited before any event loop runs.
"""

import socket
import struct

# Kafka protocol: Metadata request, version 4 (the newest one without tagged fields that also has
# `allow_auto_topic_creation`). No topics, no creation.
_METADATA_KEY, _VERSION = 3, 4
_CLIENT = b"headgate-probe"
_REQUEST = (
    struct.pack(">hhih", _METADATA_KEY, _VERSION, 1, len(_CLIENT))
    + _CLIENT
    + struct.pack(">i?", 0, False)
)


def brokers_in_metadata(host: str, port: int, timeout_s: float = 2.0) -> int:
    """Return how many brokers the node at host:port knows to be alive; 0 if it does not answer."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            with connection.makefile("rb") as answer:
                # size, correlation id, throttle ms, number of brokers: four int32
                head = answer.read(16)
    except OSError:
        return 0
    return int(struct.unpack(">4i", head)[3]) if len(head) == 16 else 0
