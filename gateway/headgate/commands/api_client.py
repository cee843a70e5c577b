"""Client of a gateway's control plane, for commands: the options, and the HTTP request."""

import argparse
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headgate.commands.command_line import FAILED, USAGE, CommandError
from headgate.errors_in_words import (
    connection_error,
    does_not_speak_tls,
    file_error,
    is_closed_early,
)

ANSWER_S = 120.0
_DEFAULT_URL = "http://127.0.0.1:9090"
_URL_VARIABLE, _TOKEN_VARIABLE = "HEADGATE_URL", "HEADGATE_TOKEN"


def add_gateway(parser: argparse.ArgumentParser) -> None:
    """Add the options for the gateway's URL and the token."""
    parser.add_argument(
        "--url",
        default=os.environ.get(_URL_VARIABLE, _DEFAULT_URL),
        metavar="URL",
        help=f"URL of the management port (or {_URL_VARIABLE}); default: {_DEFAULT_URL}",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"file with the token, if the gateway asks for one (or {_TOKEN_VARIABLE})",
    )


def ask(
    args: argparse.Namespace,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    timeout_s: float = ANSWER_S,
    also: Collection[int] = (),
) -> Any:
    """Send a request, and return the JSON of the answer.

    Args:
        args: The command line, with the options of `add_gateway`.
        method: The HTTP method.
        path: The path, with its query.
        body: The body, sent as JSON.
        headers: More headers.
        options: The options of the command line by the fields of the body, for errors.
        timeout_s: Longest silence of the gateway, in seconds.
        also: Statuses that are no refusal (503 of /ready).

    Raises:
        CommandError: The gateway refuses, with its reason, or does not answer.
    """
    raw = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        _root(args.url) + path, raw, {**_headers(args), **(headers or {})}, method=method
    )
    try:
        context = ssl.create_default_context() if request.type == "https" else None
        with _answered(request, timeout_s, context, also) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise CommandError(_error_text(error, args.url, options or {}), FAILED) from error
    except (OSError, ValueError, RecursionError, HTTPException) as error:
        text = f"--url {args.url} does not answer: {_cause_and_fix(error, args)}"
        text = text.replace("does not answer: it does not answer", "does not answer")
        raise CommandError(text, FAILED) from error


def _cause_and_fix(error: Exception, args: argparse.Namespace) -> str:
    """Return the fault of the connection or of the answer, and the fix."""
    if isinstance(error, ValueError | RecursionError) and not isinstance(error, OSError):
        return "the answer is not that of a gateway's management port; correct the port"
    text, rest = connection_error(error), args.url.partition("://")[2]
    if does_not_speak_tls(error):
        return f"the port has no TLS; give --url http://{rest}"
    if is_closed_early(error) and args.url.startswith("http://"):
        return f"{text}. If the gateway has TLS (http.tls_cert_file), give --url https://{rest}"
    if "certificate is not trusted" in text:
        return f"{text}. Name its authority in SSL_CERT_FILE"
    return text


def _answered(
    request: urllib.request.Request,
    timeout_s: float,
    context: ssl.SSLContext | None,
    also: Collection[int],
) -> Any:
    try:
        return urllib.request.urlopen(request, timeout=timeout_s, context=context)
    except urllib.error.HTTPError as error:
        if error.code in also:
            return error
        raise


def read_argument(name: str, text: str) -> Any:
    """Return JSON of the command line, or of a file as @FILE. Raises CommandError."""
    try:
        return json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} {text}: {file_error(error)}", USAGE) from error
    except ValueError as error:
        raise CommandError(f"{name} {text}: it is not JSON: {error}", USAGE) from error


def check_gateway(args: argparse.Namespace) -> None:
    """Raise CommandError if the options of `add_gateway` cannot be used."""
    _root(args.url)
    _headers(args)


def _root(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # no number of a port, half an IPv6 address
        is_valid = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
        raise CommandError(f"--url {url}: expected http://HOST:PORT or https://HOST:PORT", USAGE)
    return url.rstrip("/")


def _headers(args: argparse.Namespace) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    token = os.environ.get(_TOKEN_VARIABLE)
    if args.token_file is not None:
        try:
            token = args.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            text = f"--token-file {args.token_file}: {file_error(error)}"
            raise CommandError(text, USAGE) from error
    return {**headers, "Authorization": f"Bearer {token}"} if token else headers


def _error_text(error: urllib.error.HTTPError, url: str, options: Mapping[str, str]) -> str:
    try:
        problem = json.load(error)
        reason, detail = str(problem["reason"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        reason, detail = "", f"the gateway answers {error.code} {error.reason}"
    if error.code == HTTPStatus.NOT_FOUND and (not reason or detail.startswith("no page at ")):
        return (
            f"--url {url}: {detail}; give the management port (http.management_port, 9090 unless "
            "configured), not the data port"
        )
    if not reason:
        return detail
    return _by_option(problem.get("field"), detail, options) or f"{error.code} {reason}: {detail}"


def _by_option(field: Any, detail: str, options: Mapping[str, str]) -> str | None:
    """Return the detail with the option in place of the field, which the user never saw."""
    parts = str(field or "").split(".")
    for count in range(len(parts), 0, -1):
        option = options.get(".".join(parts[:count]))
        if option is not None:
            rest = "".join(f" {part}" for part in parts[count:] if part.isdigit())
            return f"{option}{rest}{detail.removeprefix(str(field))}"
    return None
