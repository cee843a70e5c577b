"""Bytes that two servers may take for different requests, in the four families of RFC 9112.

Each case is made for a target, so that what it asks for can be told from what was done: requests
named `a` and `b` are meant, one named `smuggled` lies where another server would see a body, or in
what this one must not take for a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

from support.attacks.targets import Target

CODINGS = (
    "xchunked", "chunked, identity", "identity, chunked", "gzip, chunked", "chunked, chunked",
    " chunked", "chunked ", "\tchunked", "CHUNKED", "chunked\x0b", "chunked;q=1", '"chunked"',
    "identity", "", ",chunked", "chunked,", "chu\x00nked",
)  # fmt: skip


class Names(NamedTuple):
    """The bodies of this case's requests, and one whole request that must not be taken for one."""

    a: bytes
    b: bytes
    smuggled: bytes


Case = Callable[[Target, Names], bytes]


def _coding(value: str, *, has_length: bool) -> Case:
    def made(to: Target, names: Names) -> bytes:
        fields = (f"Transfer-Encoding: {value}",)
        if has_length:
            return to.head(f"Content-Length: {len(names.a)}", *fields) + names.a + names.smuggled
        return to.head(*fields) + chunked(names.a) + names.b

    return made


def _length(value: str) -> Case:
    def made(to: Target, names: Names) -> bytes:
        given = value.replace("N", str(len(names.a))).replace("X", f"{len(names.a):x}")
        return to.head(f"Content-Length: {given}") + names.a + names.smuggled

    return made


def _fields(*fields: str, then: str = "b") -> Case:
    """Header lines, of which one gives the length N, and the body."""

    def made(to: Target, names: Names) -> bytes:
        lines = [line.replace("N", str(len(names.a))) for line in fields]
        return to.head(*lines) + names.a + (names.b if then == "b" else names.smuggled)

    return made


def _chunks(text: bytes) -> Case:
    """A chunked body as it goes over the wire: X is the size of the document D."""

    def made(to: Target, names: Names) -> bytes:
        size = b"%x" % len(names.a)
        body = text.replace(b"X", size).replace(b"D", names.a)
        return to.head("Transfer-Encoding: chunked") + body + names.b

    return made


def _changed(*pairs: tuple[bytes, bytes], head_only: bool = True) -> Case:
    """A good request with something in its head replaced."""

    def made(to: Target, names: Names) -> bytes:
        head = to.head(f"Content-Length: {len(names.a)}")
        for old, new in pairs:
            assert old in head, old
            head = head.replace(old, new)
        return head + names.a + names.b

    return made


def _before(method: str, path: str, *, is_chunked: bool = False) -> Case:
    """A request whose body nobody wants, and that has another request in it."""

    def made(_to: Target, names: Names) -> bytes:
        start, body = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n", names.smuggled
        if is_chunked:
            return f"{start}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked(body) + names.b
        return f"{start}Content-Length: {len(body)}\r\n\r\n".encode() + body + names.b

    return made


def chunked(body: bytes) -> bytes:
    """One chunk and the last one."""
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def _cl_te(to: Target, names: Names) -> bytes:
    inside = b"0\r\n\r\n" + names.smuggled
    return to.head(f"Content-Length: {len(inside)}", "Transfer-Encoding: chunked") + inside


def _te_cl(to: Target, names: Names) -> bytes:
    head = to.head("Transfer-Encoding: chunked", "Content-Length: 4")
    return head + chunked(names.smuggled)


def _two_lengths(to: Target, names: Names) -> bytes:
    longer = len(names.a) + len(names.smuggled)
    fields = (f"Content-Length: {len(names.a)}", f"Content-Length: {longer}")
    return to.head(*fields) + names.a + names.smuggled


# A transfer coding and a length, or codings that only some servers know.
TRANSFER_CODINGS: Mapping[str, Case] = {
    "CL.TE": _cl_te,
    "TE.CL": _te_cl,
    **{f"coding {value!r}": _coding(value, has_length=False) for value in CODINGS},
    **{f"length and coding {value!r}": _coding(value, has_length=True) for value in CODINGS},
    "coding twice": _fields(
        "Content-Length: N", "Transfer-Encoding: identity", "Transfer-Encoding: chunked"
    ),
    "coding with a blank name end": _fields("Transfer-Encoding : chunked", "Content-Length: N"),
    "coding folded": _fields("Transfer-Encoding:\r\n chunked", "Content-Length: N"),
    "coding behind NUL": _fields("X: \x00Transfer-Encoding: chunked", "Content-Length: N"),
    "coding in HTTP/1.0": lambda to, names: (
        to.head("Transfer-Encoding: chunked", "Connection: keep-alive").replace(b"/1.1", b"/1.0")
        + chunked(names.a)
        + names.b
    ),
}
# Lengths that are two, or none.
LENGTHS: Mapping[str, Case] = {
    "two lengths": _two_lengths,
    "equal lengths": _fields("Content-Length: N", "Content-Length: N"),
    "nought and a length": _fields("Content-Length: 0", "Content-Length: N", then="smuggled"),
    **{
        f"length {value!r}": _length(value)
        for value in (
            "+N",
            "-N",
            "0N",
            "0000000000N",
            "N ",
            "  N",
            "\tN",
            "N\t",
            "N.0",
            "0xX",
            "X",
            "N_0",
            "",
            " ",
            "N\x00",
            "N N",
            "N;",
            "N\x0b",
            "N,N",
            "N, N",
            "N,0",
            "9223372036854775808",
            "18446744073709551616",
            "1" * 40,
        )
    },
    "length with a blank name end": _fields("Content-Length : N", then="smuggled"),
    "length folded": _fields("Content-Length:\r\n N", then="smuggled"),
    "length and a fold": _fields("Content-Length: N\r\n 0", then="smuggled"),
    "length behind NUL": _fields("Content-Length\x00: N", then="smuggled"),
    "length with underscore": _fields("Content_Length: N"),
    "no length": lambda to, names: to.head() + names.a + names.b,
    "Connection: Content-Length": _fields("Content-Length: N", "Connection: Content-Length"),
}
# Lines that end, or go on, where only some servers see it.
LINES: Mapping[str, Case] = {
    "obs-fold": _fields("X-A: b\r\n c", "Content-Length: N"),
    "obs-fold with a tab": _fields("X-A: b\r\n\tc", "Content-Length: N"),
    "obs-fold of nothing": _fields("X-A: b\r\n ", "Content-Length: N"),
    "obs-fold first": _changed((b"\r\nHost: ", b"\r\n Host: ")),
    "bare LF everywhere": _changed((b"\r\n", b"\n")),
    "bare LF": _fields("X-A: b\nX-C: d", "Content-Length: N"),
    "bare LF hides a length": _fields("X-A: b\nContent-Length: N", then="smuggled"),
    "bare LF at the end": _changed((b"\r\n\r\n", b"\r\n\n")),
    "bare LF behind the line": _changed((b" HTTP/1.1\r\n", b" HTTP/1.1\n")),
    "bare CR": _fields("X-A: b\rX-C: d", "Content-Length: N"),
    "bare CR hides a length": _fields("X-A: b\rContent-Length: N", then="smuggled"),
    "bare CR at the end": _changed((b"\r\n\r\n", b"\r\n\r")),
    "two CR": _fields("X-A: b\r", "Content-Length: N"),
    "CRLF before": lambda to, names: b"\r\n\r\n" + to.request("", body=names.a) + names.b,
    "LF before": lambda to, names: b"\n" + to.request("", body=names.a) + names.b,
    "CR before": lambda to, names: b"\r" + to.request("", body=names.a) + names.b,
    "a blank before": lambda to, names: b" " + to.request("", body=names.a) + names.b,
    "CRLF between": lambda to, names: to.request("", body=names.a) + b"\r\n" + names.b,
    "LF between": lambda to, names: to.request("", body=names.a) + b"\n" + names.b,
    "a letter between": lambda to, names: to.request("", body=names.a) + b"X" + names.b,
    "NUL in a value": _fields("X: a\x00b", "Content-Length: N"),
    "DEL in a value": _fields("X: a\x7fb", "Content-Length: N"),
    "no colon": _fields("Xab", "Content-Length: N"),
    "no name": _fields(": a", "Content-Length: N"),
    "two blanks": _changed((b" HTTP", b"  HTTP")),
    "a tab": _changed((b" HTTP", b"\tHTTP")),
    "a blank behind the version": _changed((b"HTTP/1.1\r", b"HTTP/1.1 \r")),
    "HTTP/1.0": _changed((b"HTTP/1.1", b"HTTP/1.0")),
    "HTTP/1.0 that stays": _changed((b"HTTP/1.1\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n")),
    "HTTP/1.2": _changed((b"HTTP/1.1", b"HTTP/1.2")),
    "HTTP/2.0": _changed((b"HTTP/1.1", b"HTTP/2.0")),
    "HTTP/11": _changed((b"HTTP/1.1", b"HTTP/11")),
    "http/1.1": _changed((b"HTTP/1.1", b"http/1.1")),
    "no version": _changed((b" HTTP/1.1", b"")),
    "no host": _changed((b"Host: localhost\r\n", b"")),
    "two hosts": _fields("Host: evil.example", "Content-Length: N"),
    "a control sign in the path": _changed((b"/v1", b"/v\x011")),
}
# Chunks, their extensions, and trailers.
CHUNKS: Mapping[str, Case] = {
    name: _chunks(text)
    for name, text in {
        "extensions": b"X;a=b\r\nD\r\n0;c\r\n\r\n",
        "a quoted extension": b'X;a="b;c"\r\nD\r\n0\r\n\r\n',
        "an extension that is not closed": b'X;a="b\r\nD\r\n0\r\n\r\n',
        "an extension that ends with LF": b"X;a\nD\r\n0\r\n\r\n",
        "an extension with LF and a size": b"2;\nX\r\nD\r\n0\r\n\r\n",
        "an extension with CR": b"X;a\rb\r\nD\r\n0\r\n\r\n",
        "an extension with NUL": b"X;a\x00b\r\nD\r\n0\r\n\r\n",
        "a long extension": b"X;" + b"a" * 20_000 + b"\r\nD\r\n0\r\n\r\n",
        "a blank behind the size": b"X \r\nD\r\n0\r\n\r\n",
        "a blank before the size": b" X\r\nD\r\n0\r\n\r\n",
        "0x": b"0xX\r\nD\r\n0\r\n\r\n",
        "a plus": b"+X\r\nD\r\n0\r\n\r\n",
        "a minus": b"-X\r\nD\r\n0\r\n\r\n",
        "an underscore": b"0_X\r\nD\r\n0\r\n\r\n",
        "noughts": b"0000000000X\r\nD\r\n0\r\n\r\n",
        "a size of more than 64 bits": b"1" + b"0" * 15 + b"X\r\nD\r\n0\r\n\r\n",
        "no size": b"\r\nD\r\n0\r\n\r\n",
        "LF": b"X\nD\n0\n\n",
        "nothing behind the data": b"X\r\nD0\r\n\r\n",
        "letters behind the data": b"X\r\nDXX0\r\n\r\n",
        "LF behind the data": b"X\r\nD\n0\r\n\r\n",
        "CR behind the data": b"X\r\nD\r0\r\n\r\n",
        "the last chunk in noughts": b"X\r\nD\r\n000\r\n\r\n",
        "the last chunk with LF": b"X\r\nD\r\n0\r\n\n",
        "no end": b"X\r\nD\r\n0\r\n",
        "trailers": b"X\r\nD\r\n0\r\nX-A: b\r\n\r\n",
        "a length as a trailer": b"X\r\nD\r\n0\r\nContent-Length: 500\r\n\r\n",
        "a coding as a trailer": b"X\r\nD\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "a host as a trailer": b"X\r\nD\r\n0\r\nHost: evil.example\r\n\r\n",
        "a trailer that is none": b"X\r\nD\r\n0\r\nX A: b\r\n\r\n",
        "a folded trailer": b"X\r\nD\r\n0\r\nX: b\r\n c\r\n\r\n",
        "a trailer with LF": b"X\r\nD\r\n0\r\nX: b\n\r\n",
        "a flood of trailers": b"X\r\nD\r\n0\r\n" + b"X-A: b\r\n" * 400 + b"\r\n",
    }.items()
}
# Bodies that nobody reads, and requests to speak another protocol.
BODIES: Mapping[str, Case] = {
    "GET with a body": _before("GET", "/live"),
    "HEAD with a body": _before("HEAD", "/live"),
    "a body for no page": _before("POST", "/nothing"),
    "chunks for no page": _before("POST", "/nothing", is_chunked=True),
    "a body for the wrong method": _before("DELETE", "/live"),
    "Expect": _fields("Content-Length: N", "Expect: 100-continue"),
    "Expect that is none": _fields("Content-Length: N", "Expect: 200-ok"),
    "upgrade to websocket": _fields(
        "Content-Length: N", "Connection: upgrade", "Upgrade: websocket"
    ),
    "upgrade to HTTP/2": _fields(
        "Content-Length: N", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    ),
    "CONNECT": lambda _to, names: (
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n" + names.smuggled
    ),
    "Connection: close": _fields("Content-Length: N", "Connection: close", then="smuggled"),
}  # fmt: skip
FAMILIES = {
    "transfer codings": TRANSFER_CODINGS,
    "lengths": LENGTHS,
    "lines": LINES,
    "chunks": CHUNKS,
    "bodies": BODIES,
}

_PIECES = (
    "Content-Length: {n}", "Content-Length: {n}", "Transfer-Encoding: chunked", "Content-Length: 0",
    "content-length:{n}", "Content-Length: 0{n}", "Transfer-Encoding:chunked ", "X-A: b",
    "X-Request-Id: r", "Transfer-Encoding: identity", "Connection: keep-alive", "Upgrade: h2c",
    "Expect: 100-continue", "Headgate-Event-Id: e-1", "Host: other", "traceparent: x",
)  # fmt: skip
_ENDS = (*["\r\n"] * 30, "\n", "\r", "\r\n ", "\r\n\t", "\r\r\n", "\n\n", "\x00\r\n")


def random_request(rng: Random, to: Target, names: Names) -> bytes:
    """A request of pieces that matter for where it ends, in any order."""
    lines = [to.line, "Host: localhost", "Content-Type: application/json"]
    lines += [one.format(n=len(names.a)) for one in rng.choices(_PIECES, k=rng.randint(1, 4))]
    head = "".join(line + rng.choice(_ENDS) for line in lines) + rng.choice(("\r\n", "\n", "\r\n"))
    body = rng.choice((names.a, names.a, chunked(names.a), chunked(names.a)[:-2], b""))
    return head.encode("latin-1") + body + rng.choice((names.b, names.smuggled, b"\r\n", b""))


def random_requests(seed: int, count: int) -> Iterator[Callable[[Target, Names], bytes]]:
    """Makers of random requests, always the same for a seed."""
    for number in range(count):
        rng = Random(seed * 1_000_003 + number)
        yield lambda to, names, rng=rng: random_request(rng, to, names)
