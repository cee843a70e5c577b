"""The management port's operations on the installation itself: its log, its configuration."""

from headgate.config.names import NAMED, SECTIONS
from headgate.core.installation.entry import MEANINGS, Kind, Level
from headgate.core.outcome import Reason
from headgate.edge.openapi.management import PAGING, paged, view
from headgate.edge.openapi.operation import PRETTY, Json, query

_TEXT: Json = {"type": "string"}
_KINDS = "\n".join(f"- `{kind}`: {meaning.about}" for kind, meaning in MEANINGS.items())


def _row(**properties: Json) -> Json:
    return {"type": "object", "required": [*properties], "properties": properties}


INSTALLATION_SCHEMAS: dict[str, Json] = {
    "LogEntry": _row(
        id={"type": "integer", "minimum": 1, "description": "Grows by one with each."},
        at={"type": "string", "format": "date-time"},
        kind={"enum": [*map(str, Kind)]},
        level={"enum": [*map(str, Level)]},
        subject={
            **_TEXT,
            "description": "What it happened to: `redis`, `worker 1`, a replay's id.",
        },
        text={**_TEXT, "description": "For people."},
        details={"type": "object", "description": "Figures and names of this kind of entry."},
    ),
    "OptionInForce": _row(
        option={**_TEXT, "description": 'As TOML has it: `topics."orders.*".key`.'},
        value={"description": "null: not set. Secrets are `***`."},
        origin={
            **_TEXT,
            "description": "`FILE:LINE`, a variable of the environment, an option of the command "
            "line, `derived: ...` or `default`.",
        },
    ),
    "Finding": _row(level={"enum": ["ok", "warn", "error"]}, subject=_TEXT, text=_TEXT, fix=_TEXT),
}
_OPTIONS = paged("options", "OptionInForce")
_OPTIONS = {
    **_OPTIONS,
    "required": ["file", "read_at", *_OPTIONS["required"]],
    "properties": {"file": _TEXT, "read_at": _TEXT, **_OPTIONS["properties"]},
}

INSTALLATION = (
    view(
        "/v1/log",
        "What happened to this gateway, newest first",
        paged("entries", "LogEntry"),
        Reason.MALFORMED,
        parameters=(
            query("kind", "Of these kinds, with commas between them.", _TEXT),
            query("since", "From this time on, with its zone.", {**_TEXT, "format": "date-time"}),
            *PAGING,
        ),
        description=f"The newest 2,000 entries; each gateway has its own. Kinds:\n\n{_KINDS}\n\n",
    ),
    view(
        "/v1/config",
        "Every option in force, with its value and where that is from",
        _OPTIONS,
        Reason.MALFORMED,
        parameters=(
            query(
                "section",
                f"One section ({', '.join([*SECTIONS, *NAMED])}), or one of its tables.",
                _TEXT,
            ),
            query(
                "given", "Without what is the default; `?given` alone is `true`.", PRETTY["schema"]
            ),
            *PAGING,
        ),
    ),
    view(
        "/v1/config/findings",
        "What `headgate check` says of the configuration in force",
        paged("findings", "Finding"),
        Reason.MALFORMED,
        parameters=PAGING,
        description="Kafka and Redis are not asked: that is `headgate check --connect`.",
    ),
)
