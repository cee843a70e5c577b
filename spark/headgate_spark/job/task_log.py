"""Log lines of the jobs and of Spark's Python workers: nothing configures a log there."""

import logging

from headgate.core.terminal import indented


class _Indented(logging.Formatter):
    """Message and traceback without control characters; no further line looks like a first one."""

    def format(self, record: logging.LogRecord) -> str:
        return indented(super().format(record))


def format_task_log() -> None:
    """Let warnings, which Python writes to standard error by itself, hold no control character.

    Handlers that were set up in this process stay as they are.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Indented())
