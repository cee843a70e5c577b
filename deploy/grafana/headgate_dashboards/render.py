"""A dashboard as the JSON that Grafana loads."""

import json
from typing import Any

from headgate_dashboards.board import Board, Form, Panel, Query, Row, Variable

Json = dict[str, Any]

# Where the documentation is. Put your site's address in its place, see docs/operate/monitor.md.
DOCS = "https://docs.example.com"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24
_HEIGHTS = {Form.STAT: 4, Form.TABLE: 9}
_HEIGHT = 8
# Of Grafana's model. A newer Grafana brings what it loads up to date by itself.
_SCHEMA_VERSION = 39


def rendered(board: Board) -> str:
    """The text of its file."""
    return json.dumps(_dashboard(board), indent=1) + "\n"


def _dashboard(board: Board) -> Json:
    return {
        "uid": f"headgate-{board.name}",
        "title": board.title,
        "description": board.about,
        "tags": ["headgate"],
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "schemaVersion": _SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [_others()],
        "templating": {"list": [_datasource(), *map(_variable, board.variables)]},
        "annotations": {"list": [_alerts()]},
        "panels": _panels(board.rows),
    }


def _others() -> Json:
    return {
        "type": "dashboards",
        "title": "Headgate",
        "tags": ["headgate"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }


def _alerts() -> Json:
    return {
        "name": "Alerts",
        "datasource": _DATASOURCE,
        "enable": False,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Headgate.*",alertstate="firing"}',
        "titleFormat": "{{alertname}}",
    }


def _datasource() -> Json:
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Prometheus",
        "query": "prometheus",
    }


def _variable(variable: Variable) -> Json:
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.name.capitalize(),
        "datasource": _DATASOURCE,
        "definition": f"label_values({variable.metric}, {variable.name})",
        "query": {
            "query": f"label_values({variable.metric}, {variable.name})",
            "refId": "StandardVariableQuery",
        },
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels(rows: tuple[Row, ...]) -> list[Json]:
    """All of them, from left to right and from top to bottom."""
    found: list[Json] = []
    top = 0
    for row in rows:
        found.append(_heading(row, top, len(found) + 1))
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                top, left, height = top + height, 0, 0
            found.append(_panel(panel, left, top, len(found) + 1))
            left, height = left + panel.width, max(height, _height(panel))
        top += height
    return found


def _height(panel: Panel) -> int:
    return _HEIGHTS.get(panel.form, _HEIGHT)


def _heading(row: Row, top: int, number: int) -> Json:
    place = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
    return {"type": "row", "id": number, "title": row.title, "gridPos": place, "panels": []}


def _panel(panel: Panel, left: int, top: int, number: int) -> Json:
    shown: Json = {
        "type": str(panel.form),
        "id": number,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": {"h": _height(panel), "w": panel.width, "x": left, "y": top},
        "links": [{"title": "What this means", "url": _url(panel.page), "targetBlank": True}],
        "targets": [_target(panel, query, at) for at, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }
    if panel.form is Form.TABLE:
        shown |= _columns(panel)
    return shown


def _url(page: str) -> str:
    """The page's address on the site. page: with an anchor behind `#`, if it has one."""
    path, _, anchor = page.partition("#")
    return f"{DOCS}/{path.removesuffix('index').rstrip('/')}/" + (f"#{anchor}" if anchor else "")


def _target(panel: Panel, query: Query, at: int) -> Json:
    target: Json = {"refId": chr(ord("A") + at), "datasource": _DATASOURCE, "expr": query.expr}
    if panel.form is Form.TABLE:
        return {**target, "instant": True, "range": False, "format": "table"}
    if panel.form is Form.HEAT:
        return {**target, "format": "heatmap", "legendFormat": "{{le}}"}
    if panel.form is Form.STAT:
        return {**target, "instant": True, "range": False, "legendFormat": query.legend}
    return {**target, "legendFormat": query.legend}


def _defaults(panel: Panel) -> Json:
    steps = [{"color": step.colour, "value": step.value} for step in panel.steps]
    defaults: Json = {
        "unit": str(panel.unit),
        "color": {"mode": "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.form is Form.LINES:
        defaults |= {"min": 0, "custom": _lines(panel)}
    elif panel.form is Form.STAT:
        defaults["color"] = {"mode": "thresholds"}
    return defaults


def _lines(panel: Panel) -> Json:
    return {
        "lineWidth": 1,
        "fillOpacity": 20 if panel.is_stacked else 0,
        "showPoints": "never",
        "stacking": {"mode": "normal" if panel.is_stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if len(panel.steps) > 1 else "off"},
    }


def _columns(panel: Panel) -> Json:
    """One row for each set of labels, and a column for each query, with its head and unit."""
    names = {f"Value #{chr(ord('A') + at)}": query.legend for at, query in enumerate(panel.queries)}
    if len(names) == 1:
        names = {"Value": panel.queries[0].legend}
    units = [
        {
            "matcher": {"id": "byName", "options": query.legend},
            "properties": [{"id": "unit", "value": str(query.unit or panel.unit)}],
        }
        for query in panel.queries
    ]
    organised = {"excludeByName": {"Time": True}, "renameByName": names, "indexByName": {}}
    return {
        "transformations": [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": organised},
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": units},
    }


def _options(panel: Panel) -> Json:
    options = _OPTIONS[panel.form]
    if panel.form is Form.HEAT:
        return {**options, "yAxis": {"axisPlacement": "left", "unit": str(panel.unit)}}
    return options


_OPTIONS: dict[Form, Json] = {
    Form.LINES: {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Form.STAT: {
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
    Form.TABLE: {"showHeader": True, "sortBy": []},
    Form.HEAT: {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
    },
}
