"""What is shown of secrets, and of URLs with secrets in them; suggestions of names."""

from __future__ import annotations

import pytest

from headgate.model.text import closest, masked, without_secrets


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("hush", "***"),
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:hush@h:1", "redis://:***@h:1"),
        ("rediss://u:hu@sh@h:1", "rediss://u:***@h:1"),
        ("unix:///r.sock?password=hush", "unix:///r.sock?password=***"),
        ("p:ss", "***"),
        ("https://hush@h/x", "https://***@h/x"),
        ("https://hush:@h", "https://***@h"),
        ("https://hu@sh@h/@scope/x", "https://***@h/@scope/x"),
        ("https://h/@scope/x", "https://h/@scope/x"),
        ("https://h:1/x?a=1&token=hush&b=2", "https://h:1/x?a=1&token=***&b=2"),
        ("https://h/?api_key=hush;Access_Token=hush", "https://h/?api_key=***;Access_Token=***"),
        (
            "https://h/?X-Amz-Signature=hush&X-Amz-Date=1",
            "https://h/?X-Amz-Signature=***&X-Amz-Date=1",
        ),
        (
            "https://h/b?sv=1&sig=hu%3Dsh#access_token=hush",
            "https://h/b?sv=1&sig=***#access_token=***",
        ),
        ("https://h/?%74oken=hush", "https://h/?%74oken=***"),
        ("authorization: Bearer https://hush", "***"),
    ],
)
def test_masking(value: str, shown: str) -> None:
    assert masked(value) == shown


def test_a_text_with_such_a_url_keeps_its_words() -> None:
    said = "401, message='no', url='https://ann:hush@h/?a=1&token=hush'"
    shown = without_secrets(said)
    assert shown.startswith("401, message='no', url='https://ann:***@h/?a=1&token=***")
    assert "hush" not in shown
    assert without_secrets("user@example.com: no token=1") == "user@example.com: no token=1"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("kye", "key"),  # swapped
        ("kay", "key"),  # changed
        ("ke", "key"),
        ("keyed", "key"),
        ("ak", ""),
        ("bogus", ""),
        ("xyz", ""),
        ("k", ""),
    ],
)
def test_the_most_similar_name(typed: str, meant: str) -> None:
    hint = f'Did you mean "--{meant}"?' if meant else ""
    assert closest(typed, ["blobs", "key"], "--") == hint
