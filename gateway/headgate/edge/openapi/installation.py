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
        id={"type": "integer", "minimum": 1, "description": "Increases by one per entry."},
        at={"type": "string", "format": "date-time"},
        kind={"enum": [*map(str, Kind)]},
        level={"enum": [*map(str, Level)]},
        subject={
            **_TEXT,
            "description": "The affected part: `redis`, `worker 1`, the id of a replay.",
        },
        text={**_TEXT, "description": "The event in words."},
        details={"type": "object", "description": "Facts of the event; they depend on the kind."},
    ),
    "OptionInForce": _row(
        option={**_TEXT, "description": 'The TOML name: `topics."orders.*".key`.'},
        value={"description": "The active value; null if not set. Secrets are shown as `***`."},
        origin={
            **_TEXT,
            "description": "The origin of the value: `FILE:LINE`, an environment variable, a "
            "command-line option, `derived: ...` or `default`.",
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
        "The installation log of this gateway, newest entry first",
        paged("entries", "LogEntry"),
        Reason.MALFORMED,
        parameters=(
            query("kind", "Only entries of these kinds, separated by commas.", _TEXT),
            query(
                "since",
                "Only entries since this time, which has a time zone.",
                {**_TEXT, "format": "date-time"},
            ),
            *PAGING,
        ),
        description="Contains the latest 2,000 entries. Each gateway has its own log. Kinds:\n\n"
        f"{_KINDS}\n\n",
    ),
    view(
        "/v1/config",
        "All active options, with their values and origins",
        _OPTIONS,
        Reason.MALFORMED,
        parameters=(
            query(
                "section",
                f"One section ({', '.join([*SECTIONS, *NAMED])}), or one of its tables.",
                _TEXT,
            ),
            query(
                "given",
                "Leave out options whose origin is `default`; `?given` alone means `true`.",
                PRETTY["schema"],
            ),
            *PAGING,
        ),
    ),
    view(
        "/v1/config/findings",
        "Findings of `headgate check` about the active configuration",
        paged("findings", "Finding"),
        Reason.MALFORMED,
        parameters=PAGING,
        description="Does not connect to Kafka and Redis; `headgate check --connect` does.",
    ),
)
