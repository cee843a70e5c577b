"""The settings of the console."""

from dataclasses import dataclass
from typing import Annotated

from headgate.core.option import about


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The operator's pages: where their figures over time are from."""

    prometheus_url: Annotated[
        str | None,
        about(
            "A Prometheus that scrapes all gateways, whose figures the console's plots show; none, "
            "or while it does not answer = what this gateway has kept in memory.",
            example='"http://prometheus.internal:9090"',
        ),
    ] = None
