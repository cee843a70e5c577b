"""/docs: the OpenAPI document as one HTML page without scripts, fonts or anything from elsewhere.

Rendered here and not in the browser, so that it needs nothing but HTML: headings and `details`
elements, which every keyboard and screen reader knows.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from typing import Any

import orjson

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--accent:#0b57d0}
@media (prefers-color-scheme:dark){:root{--accent:#8ab4f8}}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,sans-serif;margin:0;display:grid;grid-template-columns:19em 1fr}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.5em 1em;
border-right:1px solid var(--line)}
nav ul{list-style:none;margin:0 0 1em;padding:0}nav a{display:block;padding:.15em 0}
nav code,summary code{font-size:.85em}main{padding:1.5em 2.5em;max-width:60em}
a{color:var(--accent)}h2{margin-top:2.2em}h3{font-size:1rem;margin:1.2em 0 .3em}
code,pre{font-family:ui-monospace,monospace}p code,td code,li code{background:var(--soft);
padding:.1em .3em;border-radius:3px}
pre{background:var(--soft);padding:.8em 1em;overflow:auto;border-radius:6px;font-size:.85em}
details.operation{border:1px solid var(--line);border-radius:8px;margin:.7em 0;padding:0 1em}
summary{cursor:pointer;padding:.7em 0}summary b{display:inline-block;min-width:4.5em}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;
padding:.3em .8em .3em 0;border-bottom:1px solid var(--line)}
.skip{position:absolute;left:-99em}.skip:focus{left:1em;top:1em}
@media (max-width:50em){body{display:block}nav{position:static;height:auto;border:0}
main{padding:1em}}
"""
_CODE = re.compile(r"`([^`]*)`")
_REF = "#/components/schemas/"

Json = dict[str, Any]


@lru_cache(maxsize=2)
def docs_page(document: bytes) -> str:
    """The page for a document of `document.document`."""
    api = orjson.loads(document)
    groups = {tag["name"]: tag["description"] for tag in api["tags"]}
    operations = [
        (method.upper(), path, operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(f"{api['info']['title']} {api['info']['version']}")
    links, sections = [], []
    for name, text in groups.items():
        some = [one for one in operations if name in one[2]["tags"]]
        links.append(f"<h2>{escape(name)}</h2><ul>{''.join(map(_link, some))}</ul>")
        body = "".join(_operation(*one, api) for one in some)
        sections.append(f"<section><h2>{escape(name)}</h2><p>{_text(text)}</p>{body}</section>")
    sections.append(_schemas(api))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style>{_STYLE}</style></head><body><a class="skip" href="#content">To the content</a>'
        f'<nav aria-label="Operations">{"".join(links)}</nav><main id="content"><h1>{title}</h1>'
        f"<p>{_text(api['info']['summary'])}. For programs: "
        '<a href="/openapi.json">openapi.json</a>. <a href="/problems">All problems</a>.</p>'
        f"{''.join(sections)}</main></body></html>"
    )


def _link(one: tuple[str, str, Json]) -> str:
    method, path, operation = one
    return (
        f'<li><a href="#{operation["operationId"]}">{escape(operation["summary"])}<br>'
        f"<code>{method} {escape(path)}</code></a></li>"
    )


def _operation(method: str, path: str, operation: Json, api: Json) -> str:
    port = {"management": " at the management port", "both": " at both ports"}
    parts = [
        f'<details class="operation" id="{operation["operationId"]}" open><summary><b>{method}</b>'
        f"<code>{escape(path)}</code> {escape(operation['summary'])}"
        f"{port.get(operation['x-headgate-port'], '')}</summary>"
    ]
    if "description" in operation:
        parts.append(f"<p>{_text(operation['description'])}</p>")
    parts.append(_parameters(operation.get("parameters", ())))
    if "requestBody" in operation:
        parts.append("<h3>Body</h3>" + "".join(_media(operation["requestBody"]["content"])))
    parts.append(_answers(operation["responses"]))
    return "".join(parts) + "</details>"


def _parameters(parameters: list[Json]) -> str:
    if not parameters:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
        f"<td>{_text(parameter['description'])}</td><td>{_kind(parameter['schema'])}</td></tr>"
        for parameter in parameters
    )
    head = "<tr><th>Name</th><th>Where</th><th>Meaning</th><th>Value</th></tr>"
    return f"<h3>Parameters</h3><table>{head}{rows}</table>"


def _media(content: Json) -> Iterator[str]:
    for name, media in content.items():
        yield f"<p><code>{escape(name)}</code>: {_kind(media['schema'])}</p>"
        example = media.get("example")
        if example is not None:
            shown = example if isinstance(example, str) else _pretty(example)
            yield f"<pre>{escape(shown)}</pre>"


def _answers(responses: Json) -> str:
    rows = []
    for status, one in responses.items():
        kinds = ", ".join(
            f"<code>{escape(name)}</code> {_kind(media['schema'])}"
            for name, media in one.get("content", {}).items()
        )
        rows.append(
            f"<tr><td>{status}</td><td>{_text(one['description'])}</td><td>{kinds}</td></tr>"
        )
    head = "<tr><th>Status</th><th>Meaning</th><th>Body</th></tr>"
    return f"<h3>Answers</h3><table>{head}{''.join(rows)}</table>"


def _kind(schema: Json) -> str:
    """A schema in a few words, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f'<a href="#schema-{name}">{name}</a>'
    for word, sign in (("anyOf", " or "), ("oneOf", " or ")):
        if word in schema:
            return sign.join(map(_kind, schema[word]))
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    kinds = schema.get("type", "anything")
    shown = " or ".join(kinds) if isinstance(kinds, list) else kinds
    if "items" in schema:
        return f"array of {_kind(schema['items'])}"
    limits = [f"{name} {schema[name]}" for name in _LIMITS if name in schema]
    return escape(", ".join([shown, *limits]))


_LIMITS = ("minimum", "maximum", "minLength", "maxLength", "pattern", "format")


def _schemas(api: Json) -> str:
    found = [
        f'<details class="operation" id="schema-{name}" open><summary><code>{name}</code></summary>'
        f"<pre>{escape(_pretty(schema))}</pre></details>"
        for name, schema in api["components"]["schemas"].items()
    ]
    return f"<section><h2>Schemas</h2>{''.join(found)}</section>"


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _pretty(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
