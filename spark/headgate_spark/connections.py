"""How to reach a cluster with aiokafka: plain values, since tasks get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Connection:
    """One cluster. Files are read where it runs.

    compression: of the batches that are written; `none` for none.
    """

    name: str
    bootstrap_servers: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    compression: str = "zstd"


_OPTIONS = ("security_protocol", "sasl_mechanism", "sasl_username", "ssl_cafile", "ssl_certfile",
            "ssl_keyfile", "compression")  # fmt: skip


def connection(
    name: str, servers: str, password: str | None, given: Mapping[str, Any]
) -> Connection:
    """From the options of `[clusters.<name>]`."""
    chosen = {option: str(given[option]) for option in _OPTIONS if given.get(option)}
    return Connection(name, servers, sasl_password=password, **chosen)
