"""The form of a new replay: what its fields mean to the API, and the same as words of a command."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief

_NAMED = re.compile(r"(snapshot|group):(.+)", re.DOTALL)
_RELATIVE = re.compile(r"-\d{1,9}(?:ms|s|m|h|d)")
_DIGITS = 19  # a number of 64 bits has less
EMPTY = {
    "topic": "", "from": "-1h", "to": "now", "partitions": "", "keys": "", "producers": "",
    "equals": "", "mode": "topic", "group": "", "name": "", "bytes_per_s": "", "allow_cold": "",
}  # fmt: skip

Json = dict[str, Any]


def body_of(form: Mapping[str, str]) -> Json:
    """What the API is asked. Raises Refused, as the API does for the rest."""
    mode = form["mode"]
    deliver: Json = {"mode": mode} | ({"group": form["group"]} if form["group"] else {})
    body: Json = {
        "name": form["name"],
        "topic": form["topic"],
        "from": _bound("from", form["from"]),
        "deliver": deliver,
    }
    if form["to"].strip():
        body["to"] = _bound("to", form["to"])
    if form["partitions"].strip():
        body["partitions"] = [_number("partitions", one) for one in form["partitions"].split(",")]
    only = _filter(form)
    if only:
        body["filter"] = only
    if form["bytes_per_s"].strip():
        body["rate"] = {"bytes_per_s": _number("bytes_per_s", form["bytes_per_s"])}
    if form["allow_cold"]:
        body["allow_cold"] = True
    return body


def _filter(form: Mapping[str, str]) -> Json:
    only: Json = {}
    for name in ("keys", "producers"):
        lines = [one.strip("\r") for one in form[name].split("\n")]
        if found := [one for one in lines if one]:
            only[name] = found
    if form["equals"].strip():
        only["equals"] = _object("equals", form["equals"])
    return only


def _bound(field: str, text: str) -> Json:
    text = text.strip()
    if text == "now" or _RELATIVE.fullmatch(text):
        return {"relative": text}
    if found := _NAMED.fullmatch(text):
        return {found[1]: found[2].strip()}
    if text.startswith("{"):
        given = _object(field, text)
        return given if set(given) & {"offsets", "timestamp"} else {"offsets": given}
    is_number = text.isascii() and text.isdecimal() and len(text) < _DIGITS
    return {"timestamp": int(text) if is_number else text}


def _object(field: str, text: str) -> Json:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _wrong(f"{field} is no JSON: {error.msg}") from error
    if not isinstance(found, dict):
        raise _wrong(f"{field} is a JSON object")
    return found


def _number(field: str, text: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdecimal() and len(stripped) < _DIGITS):
        raise _wrong(f"{field}: {brief(stripped)} is no number")
    return int(stripped)


def _wrong(detail: str) -> Refused:
    return Refused(Failure(Reason.MALFORMED, detail))


def words_of(body: Json) -> list[str]:
    """The same for the command line."""
    words = ["replay", "create", "--name", body["name"], "--topic", body["topic"]]
    words += ["--from", _typed(body["from"])]
    if "to" in body:
        words += ["--to", _typed(body["to"])]
    if "partitions" in body:
        words += ["--partitions", ",".join(map(str, body["partitions"]))]
    if "filter" in body:
        words += ["--filter", orjson.dumps(body["filter"]).decode()]
    words += ["--mode", body["deliver"]["mode"]]
    if "group" in body["deliver"]:
        words += ["--group", body["deliver"]["group"]]
    if "rate" in body:
        words += ["--bytes-per-s", str(body["rate"]["bytes_per_s"])]
    if body.get("allow_cold"):
        words.append("--allow-cold")
    return words


def _typed(bound: Json) -> str:
    """What --from and --to take for it."""
    if "timestamp" in bound:
        return str(bound["timestamp"])
    if "relative" in bound:
        return str(bound["relative"]).removeprefix("-")
    return orjson.dumps(bound).decode()
