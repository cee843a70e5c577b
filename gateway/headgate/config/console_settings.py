"""The settings of the console."""

from dataclasses import dataclass
from typing import Annotated

from headgate.core.option import about


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The console."""

    prometheus_url: Annotated[
        str | None,
        about(
            "URL of a Prometheus that scrapes all gateways, for the console's charts. Without it, "
            "or while it does not answer, the charts show the figures in this gateway's memory.",
            example='"http://prometheus.internal:9090"',
        ),
    ] = None
