"""Hashes of words that others can guess are refused, and so are placeholders of the documents."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from headgate.config import ConfigError, load
from headgate.config.topic_checks import is_well_known, well_known_words
from support.pages import DOCS
from support.root import ROOT

CLUSTER = '[clusters.main]\nbootstrap_servers = "k:9092"\n'
# A hash of a token that is nobody's; charts need a valid configuration before a user has tokens.
NOBODYS = "0" * 64


def refused(file: Path, digest: str) -> str:
    file.write_text(f'{CLUSTER}[producers.checkout]\ntoken_sha256 = "{digest}"\n')
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    return str(caught.value)


@pytest.mark.parametrize(
    "token",
    ["test", "test2", "changeme", "password", "secret", "token", "admin", "headgate", "example",
     "foobar", "1", "123456", "1234567890", "letmein", "qwerty", "Password1", "ADMIN123",
     "Checkout!", "secret\n", "hunter2", "", "TOKEN", "kafka", "root", "guest", "my-token"],
)  # fmt: skip
def test_well_known_words_are_refused(token: str, tmp_path: Path) -> None:
    told = refused(tmp_path / "headgate.toml", sha256(token.encode()).hexdigest())
    assert "producers.checkout.token_sha256" in told
    assert "well-known word" in told
    assert "headgate token NAME" in told


def test_there_are_some_hundred_words_and_random_tokens_pass() -> None:
    assert len(well_known_words()) > 500
    digest = sha256(b"hg_Zn0v5m1wq7xk2c8r4t6y9u3i5o7p1a2s4d6f8g0h2j4").hexdigest()
    assert not is_well_known(digest, "checkout")


def shown_files() -> Iterator[Path]:
    for folder in ("docs", "examples", "deploy", "clients"):
        for file in sorted((ROOT / folder).rglob("*")):
            is_text = file.suffix in (".md", ".toml", ".yaml", ".yml", ".py", ".js", ".sh", ".env")
            if is_text and not {"node_modules", "test", "tests"} & {*file.parts}:
                yield file
    yield ROOT / "README.md"


TOKEN_TEXT = re.compile(
    r"Bearer (?!realm=)([^\s\"'`),]+)"  # as a header; a challenge has no token
    r"|\btoken\s*[=:]\s*[\"']([^\"']+)[\"']"  # as an argument, or as a member of JSON
    r"|HEADGATE_TOKEN=[\"']?([^\s\"'`]+)"
    r"|\b(hg_[\w-]*)"
)


def test_tokens_that_documents_and_examples_show_are_refused() -> None:
    shown = {
        text
        for file in shown_files()
        for match in TOKEN_TEXT.findall(file.read_text(errors="replace"))
        for text in match
        if text
    }
    assert "TOKEN" in shown  # the search finds what it should find
    code = re.compile(r"[{}$\\]|\.\w|\w\(")  # an expression of a program, no token
    literal = {text for text in shown if not code.search(text)}
    unknown = {text for text in literal
               if not is_well_known(sha256(text.encode()).hexdigest(), "shop")}  # fmt: skip
    assert unknown == set()


def test_hashes_that_documents_show_are_placeholders_that_do_not_load(tmp_path: Path) -> None:
    shown = 0
    for file in shown_files():
        text = file.read_text(errors="replace")
        for given in re.findall(r"token_sha256\s*=\s*(\[[^\]]*\]|\"[^\"]*\")", text):
            for placeholder in re.findall(r'"([^"]*)"', given):
                if placeholder != NOBODYS and "{" not in placeholder:
                    shown += 1
                    assert "headgate token NAME" in refused(tmp_path / "f.toml", placeholder), file
    assert shown


def test_the_page_about_security_is_refused_as_it_stands(tmp_path: Path) -> None:
    """A reader who pastes the block must put in hashes of tokens first."""
    page = (DOCS / "operate" / "secure.md").read_text()
    (block,) = [
        one for one in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "token_sha256" in one
    ]
    block = "\n".join(line for line in block.splitlines() if "tls_" not in line)
    file = tmp_path / "headgate.toml"
    file.write_text(f"{CLUSTER}{block}\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    wrong = {problem.option for problem in caught.value.problems}
    assert wrong == {f"producers.{name}.token_sha256" for name in tomllib.loads(block)["producers"]}


def test_ten_thousand_tokens_are_looked_up_at_once() -> None:
    """The set is built once; a look-up does not walk through it."""
    is_well_known("0" * 64, "first")
    began = time.process_time()
    for number in range(10_000):
        assert not is_well_known(sha256(f"{number}-token-x".encode()).hexdigest(), f"p{number}")
    assert time.process_time() - began < 10
