"""A case of an alert: series at which it fires, and series at which it must keep silent.

The values are promtool's: `0+10x30` is 0, 10, ... for 31 minutes, `_` is no value, `1x90` the same
value 91 times. What counts is the minute `at`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

Series = dict[str, str]  # name and labels -> values, one a minute


class Case(NamedTuple):
    """at: minutes since 1970, which is when promtool begins."""

    alert: str
    fires: Series
    silent: Series
    at: int = 30


def state(state: str, at: int = 30) -> tuple[Series, Series]:
    """A group in a state, and in it no longer than the alert forgives."""
    name = f'headgate_group_state{{cluster="c",group="g",state="{state}"}}'
    return {name: "1x90"}, {name: f"0x{at - 2} 1x90"}


def over(name: str, bad: float, good: float) -> tuple[Series, Series]:
    """It is bad all the time, and good."""
    return {name: f"{bad:g}x120"}, {name: f"{good:g}x120"}


def counts(name: str) -> tuple[Series, Series]:
    """It goes on counting, and it counted once, long ago."""
    return {name: "0+5x120"}, {name: "7x120"}


def labelled(series: Series, **labels: str) -> Series:
    """Return the series with more labels.

    A label that a series has already keeps its value. A recorded sum gets no label of a process.
    """
    found = {}
    for name, values in series.items():
        own = set(re.findall(r"(\w+)=", name))
        if ":" in name.partition("{")[0] and not name.startswith("instance:"):
            own |= {"instance", "pod"}
        more = "".join(f'{key}="{text}",' for key, text in labels.items() if key not in own)
        found[name.replace("{", "{" + more, 1)] = values
    return found


def rule_tests(cases: Iterable[Case], rules: str, labels: str = "") -> dict[str, Any]:
    """The cases of an alert as promtool reads them.

    Args:
        cases: The cases.
        rules: Path of a file with the alert.
        labels: Labels that the alert has besides its name and state.
    """
    groups = []
    for case in cases:
        firing = f'count(ALERTS{{alertname="{case.alert}",alertstate="firing"{labels}}})'
        for series, count in ((case.fires, 1), (case.silent, 0)):
            expected = [{"labels": "{}", "value": count}] if count else []
            groups.append(
                {
                    "name": f"{case.alert} {'fires' if count else 'is silent'}",
                    "interval": "1m",
                    "input_series": [
                        {"series": name, "values": values} for name, values in series.items()
                    ],
                    "promql_expr_test": [
                        {
                            "expr": firing,
                            "eval_time": f"{case.at}m",
                            "exp_samples": expected,
                        }
                    ],
                }
            )
    return {"rule_files": [rules], "evaluation_interval": "1m", "tests": groups}
