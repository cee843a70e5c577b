"""How a job ends early: with a sentence for the person who started it."""

from __future__ import annotations

OK, FAILED, USAGE = 0, 1, 2


class JobError(Exception):
    """Ends a job. The text names what to do; exit_code is FAILED or USAGE."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code
