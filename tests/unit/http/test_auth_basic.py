"""A token may come as the password of HTTP Basic, for clients that know no other scheme."""

import base64
import hashlib

import pytest

from headgate.config.settings import AuthSettings, ProducerSettings
from headgate.http.auth import Authenticator, Peer
from headgate.model.outcome import Failure

TOKEN = "t0ken:with-colon"
CALLERS = Authenticator(
    AuthSettings(mode=("token",)),
    {"shop": ProducerSettings((hashlib.sha256(TOKEN.encode()).hexdigest(),), ("*",))},
)


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


def who(header: bytes) -> str | None:
    found = CALLERS.identify({b"authorization": header}, Peer(None))
    return None if isinstance(found, Failure) else found.name


@pytest.mark.parametrize("header", [basic(f"me:{TOKEN}"), basic(f":{TOKEN}"),
                                    basic(f"me:{TOKEN}").replace(b"Basic", b"bASIC"),
                                    b"Bearer " + TOKEN.encode()])  # fmt: skip
def test_the_token_is_known(header: bytes) -> None:
    assert who(header) == "shop"


@pytest.mark.parametrize("header", [basic("me:other"), basic("me"), basic(TOKEN), b"Basic *",
                                    b"Basic", b"", b"Digest x", b"Bearer"])  # fmt: skip
def test_anything_else_is_not(header: bytes) -> None:
    assert who(header) is None
