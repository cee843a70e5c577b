"""How the control plane's parts say no: with the failure that the client is told."""

from collections.abc import Mapping
from typing import Any

from headgate.core.outcome import Failure, Reason


class RefusalError(Exception):
    """Ends a request with a problem document."""

    def __init__(
        self,
        reason: Reason,
        detail: str,
        figures: Mapping[str, Any] | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.failure = Failure(reason, detail, figures, retry_after_s)
