"""Requests that are nearly alike: what a client sends again and again, and near misses of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

Chance = Callable[[], float]

START = b"POST /v1/topics/orders/events HTTP/1.1"
STARTS = (
    [START] * 12
    + [b"POST /v1/topics/a%2Eb%C3%A9/events HTTP/1.1", b"POST /v1/topics/\xc3\xa9/events HTTP/1.1"]
    + [b"POST /v1/topics/orders/events?key=a HTTP/1.1", b"POST /v1/topics/o/events#x HTTP/1.1"]
    + [b"POST /v1/topics/orders/events HTTP/1.0", b"GET /v1/topics/orders/events HTTP/1.1"]
    + [b"POST  /v1/topics/orders/events HTTP/1.1", b"\r\n" + START]
    + [b"POST http://x/v1/topics/orders/events HTTP/1.1", START + b" "]
)
OWN = [
    b"X-Request-Id", b"Traceparent", b"Headgate-Key", b"Headgate-Event-Id", b"Headgate-Timestamp",
    b"Idempotency-Key",
]  # fmt: skip
OTHERS = (
    [b"Content-Type: application/json", b"Accept: */*", b"Authorization: Bearer a.b", b"A: b"] * 3
    + [b"Transfer-Encoding: chunked", b"Connection: close", b"Connection: keep-alive", b"A:\tb "]
    + [b"Connection: Upgrade", b"Upgrade: websocket", b"Expect: 100-continue", b"Origin: x"]
    + [b"Content-Encoding: gzip", b"A: b\r\n c", b"A: b\r\n\tHost: c"]
    + [b"A: \xff", b"A: b\x00", b": b", b"A", b"A: b\nC: d", b"A:", b"Host: y", b"A: b\r", b" A: b"]
    + [b"Headgate-Key*: a", b"X-Headgate-Key: a", b"A: " + b"a" * 900, b"A: " + b"a" * 3500]
)
COLONS = [b": "] * 12 + [b":"] * 3 + [b":  ", b" : ", b":\t", b": \t", b"", b"::"]
GOOD = [
    b"a", b"k-17", b"0", b"~!", b"a:b", b"x" * 40, b"x" * 127, b"x" * 128, b"4",
    b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", b"2026-11-24T09:09:11Z",
]  # fmt: skip
ODD = [
    b"", b" ", b"\t", b"a b", b" a", b"a ", b"a\t", b"\ta", b"x" * 129, b"x" * 2000, b"\xc3\xa9",
    b"a\x00", b"\x7f", b"\x1f", b"\x80", b"a\rb", b"a\nb", b"a\r", b"a\r\n b", b"a\r\n\tb",
    b"a\r\nHeadgate-Key: z", b"a\r\nheadgate-key:", b"a\r\nHEADGATE-KEY: z", b"a\r\n\r\n",
    b"a\nTransfer-Encoding: chunked", b"a\r\nTransfer-Encoding: chunked", b"a\nContent-Length: 0",
    b"a\r\nContent-Length: 2",
]  # fmt: skip
VALUES = GOOD * 24 + ODD
VALUE_COUNT = len(VALUES)
# How a length may be written that is not just the number; {n}: the true one, {m}: another.
ODD_LENGTHS = [
    "{m}", "{m}", "{m}", "0{n}", "{n:09}", "{n:010}", "+{n}", "-{n}", " {n}", "{n} ", "\t{n}",
    "{n},{n}", "{n}, {m}", "0x{n}", "{n}_0", "{n}.0", "{n}e0", "", "\u0661",
    "{n}\r\nContent-Length: {n}", "{n}\r\ncontent-length: {m}", "{n}\r\nCONTENT-LENGTH: {m}",
    "{n}\nContent-Length: {m}", "{n}\r\n {m}", "{n}\r\nTransfer-Encoding: chunked", "{n};",
    "\x00{n}", "{n}\x00", "9999999999", "18446744073709551618", "999999999",
]  # fmt: skip
SMUGGLED = START + b"\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
BODIES = [b'{"id":1}'] * 6 + [
    b"", b"{}", b"\r\n", b"\r\n\r\n", b"\n", b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", SMUGGLED,
    SMUGGLED[:60], SMUGGLED * 3, b"\x00\xff", b"x" * 999, b"x" * 1000, b"x" * 1001,
    b"GET / HTTP/1.1\r\n\r\n",
]  # fmt: skip
BODIES_AND_LENGTHS = [(b"%d" % len(body), body) for body in BODIES]
BODY_COUNT = len(BODIES)
PIECES = [
    b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"\t", b":", b"\x00", b"\x0b", b"\x80", b"\xc3\xa9",
    b"0", b"+", b"-", b",", b"\r\n ", b"\r\nA: b", b"\r\nTransfer-Encoding: chunked", b"chunked",
    b"\r\n:", b"\r\nContent-Length: 4", b"\r\nHeadgate-Key: z", b"\r\nHEADGATE-KEY: z",
    b"\r\nX-Request-ID:", b"\r\nConnection: close", b"\r\nExpect: 100-continue", b"\r\nHost: y",
    b"x" * 130, b"x" * 4000,
]  # fmt: skip
SIGNS = [bytes([sign]) for sign in range(256)] + [b"\r", b"\n", b" ", b":", b"-"] * 20


class Kind(NamedTuple):
    """A head but for its values, which have places in `parts`. length: the place of the length."""

    parts: list[bytes]
    places: list[int]
    length: int


def in_some_case(some: random.Random, name: bytes) -> bytes:
    chance = some.random()
    if chance < 0.6:
        return name
    if chance < 0.85:
        return name.lower()
    return some.choice([name.upper(), name.swapcase(), name.capitalize(), name[:-1] + b"D"])


def kind(some: random.Random) -> Kind:
    """One that a client may well send, or something odd."""
    is_odd = some.random() < 0.4
    own = some.sample(OWN, k=some.randint(0, 3))
    if is_odd and own:
        own += some.choices([*own, *OWN], k=some.randint(0, 2))
    names = [in_some_case(some, name) if is_odd else name for name in [b"Content-Length", *own]]
    lines = [(name + (some.choice(COLONS) if is_odd else b": "), True) for name in names]
    lines += [(b"Host: x", False)]
    lines += [(line, False) for line in some.choices(OTHERS[:12], k=some.randint(0, 2))]
    if is_odd:
        lines += [(line, False) for line in some.choices(OTHERS, k=some.randint(0, 2))]
    length = lines[0]
    some.shuffle(lines)
    parts, places, place_of_length = [some.choice(STARTS) if is_odd else START], list[int](), 0
    for line in lines:
        parts.append(b"\r\n" + line[0])
        if line[1]:
            if line is length:
                place_of_length = len(parts)
            else:
                places.append(len(parts))
            parts.append(b"")
    parts.append(b"\r\n\r\n")
    return Kind(parts, places, place_of_length)


def request(some: random.Random, chance: Chance, of: Kind) -> bytes:
    """One of the kind, with values of its own."""
    parts = of.parts.copy()
    length, body = BODIES_AND_LENGTHS[int(chance() * BODY_COUNT)]
    for place in of.places:
        parts[place] = VALUES[int(chance() * VALUE_COUNT)]
    parts[of.length] = length if chance() < 0.88 else odd_length(some, len(body))
    parts.append(body)
    return b"".join(parts)


def odd_length(some: random.Random, true: int) -> bytes:
    other = some.choice([0, 1, true + 1, true - 1, 40, 200, 1000, 1001, 10**6])
    return some.choice(ODD_LENGTHS).format(n=true, m=other).encode()


def mutated(some: random.Random, chance: Chance, text: bytes) -> bytes:
    """The text with a change or two."""
    changed = CHANGES[int(chance() * len(CHANGES))](chance, text)
    if chance() < 0.2:
        changed = CHANGES[int(chance() * len(CHANGES))](chance, changed)
    return changed


def _flip(chance: Chance, text: bytes) -> bytes:
    at = int(chance() * len(text))
    return text[:at] + SIGNS[int(chance() * len(SIGNS))] + text[at + 1 :]


def _insert(chance: Chance, text: bytes) -> bytes:
    at = int(chance() * len(text))
    return text[:at] + PIECES[int(chance() * len(PIECES))] + text[at:]


def _append_to_line(chance: Chance, text: bytes) -> bytes:
    at = text.find(b"\r\n", int(chance() * len(text)))
    at = at if at >= 0 else len(text)
    return text[:at] + PIECES[int(chance() * len(PIECES))] + text[at:]


def _cut_out(chance: Chance, text: bytes) -> bytes:
    at = int(chance() * len(text))
    return text[:at] + text[at + 1 + int(chance() * 4) :]


def _another_line_break(chance: Chance, text: bytes) -> bytes:
    at = text.find(b"\r\n", int(chance() * len(text)))
    if at < 0:
        return text
    breaks = (b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"\r\n ", b"\r\n\t", b" \r\n", b"\n\n", b"")
    return text[:at] + breaks[int(chance() * len(breaks))] + text[at + 2 :]


def _lines(chance: Chance, text: bytes) -> bytes:
    """One of them comes twice, goes, or changes places with another."""
    lines = text.split(b"\r\n")
    one, other = int(chance() * len(lines)), int(chance() * len(lines))
    what = chance()
    if what < 0.4:
        lines.insert(other, lines[one])
    elif what < 0.6:
        del lines[one]
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"\r\n".join(lines)


def _another_case(chance: Chance, text: bytes) -> bytes:
    at = int(chance() * len(text))
    end = at + 1 + int(chance() * 12)
    return text[:at] + text[at:end].swapcase() + text[end:]


CHANGES = [
    _flip, _flip, _flip, _insert, _append_to_line, _cut_out, _another_line_break, _lines, _lines,
    _another_case,
]  # fmt: skip
