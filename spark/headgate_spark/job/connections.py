"""How to reach a cluster with aiokafka: plain values, since tasks get them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.kafka.access import ClusterAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(ClusterAccess):
    """One cluster by its name.

    compression: of the batches that are written; `none` for none.
    """

    name: str
    compression: str = "zstd"


_OPTIONS = ("security_protocol", "sasl_mechanism", "sasl_username", "ssl_cafile", "ssl_certfile",
            "ssl_keyfile", "compression")  # fmt: skip


def connection(
    name: str, servers: str, password: str | None, given: Mapping[str, Any]
) -> Connection:
    """From the options of `[clusters.<name>]`."""
    chosen: dict[str, Any] = {
        option: str(given[option]) for option in _OPTIONS if given.get(option)
    }
    return Connection(servers, name=name, sasl_password=password, **chosen)
