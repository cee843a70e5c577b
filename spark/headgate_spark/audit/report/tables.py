"""Tables of the page: wide ones scroll by themselves, so that a narrow screen shows the rest."""

from collections.abc import Sequence
from html import escape

from headgate_spark.audit.judgement.diagnosis import EMPTY_KEY

_MAX_KEY = 120  # characters


def table(head: str, rows: str) -> str:
    """head, rows: `row`s, or rows of the caller's own making."""
    return f'<div class="wide"><table>{head}{rows}</table></div>'


def row(cell: str, texts: Sequence[str]) -> str:
    """A name and its figures. cell: th or td."""
    first = f"<{cell}>{escape(texts[0])}</{cell}>"
    rest = "".join(f'<{cell} class="n">{escape(text)}</{cell}>' for text in texts[1:])
    return f"<tr>{first}{rest}</tr>"


def key_cell(key: str) -> str:
    """A key in a table; an empty one is said to be empty."""
    if not key:
        return f'<span class="note">{EMPTY_KEY}</span>'
    return f"<code>{escape(key[:_MAX_KEY])}</code>"
