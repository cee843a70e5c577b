"""How what is kept in Redis may fail."""


class StoreError(Exception):
    """The store did not answer as it should.

    reason: a label of bounded variety for metrics.  detail: for the log.  in_words: for clients,
    where the detail is not.
    """

    def __init__(self, reason: str, detail: str, in_words: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.in_words = detail if in_words is None else in_words
