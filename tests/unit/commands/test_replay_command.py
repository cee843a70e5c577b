"""`headgate replay`: a wrong option is said before anybody is asked."""

import pytest

from headgate.cli import main

NOBODY = "http://127.0.0.1:1"  # tcpmux: nothing answers there


@pytest.mark.parametrize(
    "url", ["", "/v1", "localhost:9090", "http://127.0.0.1:door", "http://a b"]
)
def test_a_url_that_is_none_names_the_option(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "list", "--url", url]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"headgate: --url {url}: expected http://HOST:PORT or https://HOST:PORT")


@pytest.mark.parametrize(
    "start", [["--from", "-2h"], ["--from=-2h"], ["--from", "2h", "--to", "now"]]
)
def test_a_time_before_now_is_taken(start: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "create", "--topic", "orders", *start, "--url", NOBODY]) == 1
    assert f"--url {NOBODY} does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize("text", ["soon", "2026-01-31T12:00:00", "2026-01-31", "9" * 20, "²"])
def test_a_time_that_is_none_names_the_option(
    option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--from": "2h", option: text}
    options = [one for pair in given.items() for one in pair]
    assert main(["replay", "create", "--topic", "orders", *options, "--url", NOBODY]) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        f"headgate: {option} {text}: expected 2h (ago), now, ISO 8601 with a zone (20"
    )
    assert told.count("\n") == 1
