"""The section `[tracing]`: where spans go, and of which requests they are made."""

from dataclasses import dataclass, field
from typing import Annotated

from headgate.core.option import about


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """OpenTelemetry spans of requests, over OTLP/HTTP. Off without an endpoint."""

    endpoint: Annotated[
        str | None,
        about(
            "OTLP/HTTP URL of the collector, to which /v1/traces is added. Without it tracing is "
            "off.",
            example='"http://otel-collector:4318"',
        ),
    ] = None
    sample_one_in: Annotated[
        int,
        about(
            "Of requests without a traceparent, one in this many is traced. 0 = none. With a "
            "traceparent, the caller decides.",
            minimum=0,
            maximum=1_000_000_000,
        ),
    ] = 100
    service_name: Annotated[str, about("service.name of the spans.")] = "headgate"
    headers: Annotated[
        tuple[str, ...],
        about(
            "Headers of the requests to the collector, such as its authentication. Prefer the "
            "environment or a file.",
            example='["authorization: Bearer ..."]',
            secret=True,
        ),
    ] = field(default=(), repr=False)
    timeout_ms: Annotated[
        int,
        about("Longest time for a request to the collector.", minimum=100, maximum=600_000),
    ] = 10_000

    @property
    def header_pairs(self) -> dict[str, str]:
        """The headers, by name."""
        pairs = (one.partition(":") for one in self.headers)
        return {name.strip(): value.strip() for name, _, value in pairs}
