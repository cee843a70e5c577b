"""What a dashboard is: rows of panels, each with its queries, its unit and a page about it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Unit(StrEnum):
    """Grafana's names of the units that are used."""

    BYTES = "bytes"
    BYTES_PER_S = "Bps"
    COUNT = "short"
    EVENTS_PER_S = "eps"
    RECORDS_PER_S = "recps"
    REQUESTS_PER_S = "reqps"
    RATIO = "percentunit"
    SECONDS = "s"
    YES_NO = "bool_yes_no"


class Form(StrEnum):
    """How a panel shows its series; Grafana's names."""

    LINES = "timeseries"
    STAT = "stat"
    TABLE = "table"
    HEAT = "heatmap"


class Query(NamedTuple):
    """expr: PromQL.  legend: of each series, or in a table the column's head.

    unit: of a table's column; elsewhere the panel has it.
    """

    expr: str
    legend: str
    unit: Unit | None = None


class Step(NamedTuple):
    """From this value on a panel has this colour. value: None for the first, which has no bound."""

    value: float | None
    colour: str


PLAIN = (Step(None, "green"),)


@dataclass(frozen=True, slots=True)
class Panel:
    """about: what it shows, and what to make of it.  page: below docs/, without `.md`.

    steps: thresholds, ascending.  width: of 24.  is_stacked: the series are parts of one whole.
    """

    title: str
    about: str
    unit: Unit
    page: str
    queries: tuple[Query, ...]
    form: Form = Form.LINES
    steps: tuple[Step, ...] = PLAIN
    width: int = 8
    is_stacked: bool = False


class Row(NamedTuple):
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


class Variable(NamedTuple):
    """A choice of values of a label. metric: one that has all of them."""

    name: str
    metric: str


@dataclass(frozen=True, slots=True)
class Board:
    """name: of its file, and the end of its uid.  about: which questions it answers."""

    name: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]


def bad_from(value: float, warn: float | None = None) -> tuple[Step, ...]:
    """Red from a value on, and orange from a lower one."""
    orange = () if warn is None else (Step(warn, "orange"),)
    return (*PLAIN, *orange, Step(value, "red"))


def bad_below(value: float) -> tuple[Step, ...]:
    """Red below a value."""
    return (Step(None, "red"), Step(value, "green"))


INSTANCE = Variable("instance", "headgate_ready")
TOPIC = Variable("topic", "headgate_events_total")
PRODUCER = Variable("producer", "headgate_events_total")
