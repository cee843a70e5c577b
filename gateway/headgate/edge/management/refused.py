"""How a management page says no."""

from headgate.core.outcome import Failure, Reason


class RefusedError(Exception):
    """Ends a request with a problem document."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.failure = Failure(reason, detail)
