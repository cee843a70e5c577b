"""Tables of the page: wide ones scroll by themselves, so that a narrow screen shows the rest."""

from collections.abc import Sequence
from html import escape


def table(head: str, rows: str) -> str:
    """head, rows: `row`s, or rows of the caller's own making."""
    return f'<div class="wide"><table>{head}{rows}</table></div>'


def row(cell: str, texts: Sequence[str]) -> str:
    """A name and its figures. cell: th or td."""
    first = f"<{cell}>{escape(texts[0])}</{cell}>"
    rest = "".join(f'<{cell} class="n">{escape(text)}</{cell}>' for text in texts[1:])
    return f"<tr>{first}{rest}</tr>"
