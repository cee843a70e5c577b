"""Rendering of pages as HTML: templates, filters and static files."""

import hashlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import orjson
from markupsafe import Markup

from headgate.admin.console import figures
from headgate.admin.console.audits import figure_words
from headgate.admin.console.page import Page
from headgate.charts import STYLE
from headgate.model.text import escaped, path_segment

FOLDER = Path(__file__).parent
# Browsers send form values back, with line ends as CR LF, so the values must not be escaped.
_FORM_VALUES = re.compile(r'(\bvalue="[^"]*"|<textarea\b[^>]*>[^<]*</textarea>)')
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"}


class Rendering:
    """Renderer of pages. URLs of static files change with their content."""

    def __init__(self) -> None:
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters |= {
            "number": figures.number,
            "count": figures.count,
            "size": figures.size,
            "rate": figures.rate,
            "share": figures.share,
            "duration": figures.duration,
            "moment": figures.moment,
            "clock": figures.clock,
            "figure": figure_words,
            "part": lambda text: path_segment(str(text)),
            "quoted": lambda text: shlex.quote(str(text)),
            "breakable": lambda name: figures.breakable(str(name)),
            "pretty": lambda path: f"{path}{'&' if '?' in path else '?'}pretty",
            "data": _data,
        }
        static = {path.name: address(path) for path in static_files()}
        self._templates.globals |= {"spark": figures.spark, "static": static}
        # A block that is rendered alone has no imports of its template.
        self._templates.globals["m"] = self._templates.get_template("macros.html").module

    def page(self, page: Page, shell: Mapping[str, Any]) -> str:
        """Return the complete page. `shell` holds the values of the layout."""
        template = self._templates.get_template(page.template)
        return shown(template.render({**shell, **page.values, "title": page.title}))

    def live(self, page: Page, shell: Mapping[str, Any]) -> str:
        """Return only the page's block `live`."""
        template = self._templates.get_template(page.template)
        context = template.new_context({**shell, **page.values, "title": page.title})
        return shown("".join(template.blocks["live"](context)))


def shown(html: str) -> str:
    """Return a rendered page without control characters, except in values of form fields."""
    parts = _FORM_VALUES.split(html)
    return "".join(part if at % 2 else escaped(part) for at, part in enumerate(parts))


def static_files() -> list[Path]:
    """Return the paths of scripts, styles and images."""
    paths = (FOLDER / "static").rglob("*")
    return sorted([STYLE, *(path for path in paths if path.suffix in (".js", ".css", ".svg"))])


def address(path: Path) -> str:
    """Return the URL of a static file; browsers may cache it forever."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return f"/console/static/{path.stem}.{digest}{path.suffix}"


def _data(value: Any) -> Markup:
    """Return a value as JSON for a script element that browsers do not run."""
    text = orjson.dumps(value).decode()
    for character, replaced in _ESCAPED.items():
        text = text.replace(character, replaced)
    return Markup(text)
