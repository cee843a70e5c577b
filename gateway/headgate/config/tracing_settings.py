"""The section `[tracing]`: where spans go, and of which requests they are made."""

from dataclasses import dataclass, field
from typing import Annotated

from headgate.core.option import about


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """OpenTelemetry spans of requests, over OTLP/HTTP. Off where there is no endpoint."""

    endpoint: Annotated[
        str | None,
        about(
            "The collector's OTLP/HTTP URL, to which /v1/traces is added; none = tracing is off.",
            example='"http://otel-collector:4318"',
        ),
    ] = None
    sample_one_in: Annotated[
        int,
        about(
            "Of one in so many requests that come without a traceparent, spans are made; 0 = of "
            "none. With a traceparent, the caller has decided.",
            minimum=0,
            maximum=1_000_000_000,
        ),
    ] = 100
    service_name: Annotated[str, about("The spans' service.name.")] = "headgate"
    headers: Annotated[
        tuple[str, ...],
        about(
            "Headers of the requests to the collector, for its authentication; better by "
            "environment or file.",
            example='["authorization: Bearer ..."]',
            secret=True,
        ),
    ] = field(default=(), repr=False)
    timeout_ms: Annotated[
        int,
        about("How long a request to the collector may take.", minimum=100, maximum=600_000),
    ] = 10_000

    @property
    def header_pairs(self) -> dict[str, str]:
        """The headers, by name."""
        pairs = (one.partition(":") for one in self.headers)
        return {name.strip(): value.strip() for name, _, value in pairs}
