"""Errors of files and connections as sentences: no errno, no Python tuple, no class name."""

import errno
import os
import pwd
import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from http.client import BadStatusLine, RemoteDisconnected
from pathlib import Path
from typing import Final, NamedTuple

_REFUSED: Final = "nothing listens there; start it, or correct the host and the port"
_UNREACHABLE: Final = "there is no route to it; correct the address, or check the network"
_SILENT: Final = "it does not answer in time; correct the address, or check firewalls"
MAY_EXPECT_TLS: Final = "it may expect TLS, or another protocol"
_CLOSED: Final = f"the other side closed the connection; {MAY_EXPECT_TLS}"
_NO_SOCKET: Final = "the socket does not exist"
_BY_NUMBER: Final[Mapping[int, str]] = {
    errno.ECONNREFUSED: _REFUSED,
    errno.EHOSTUNREACH: _UNREACHABLE,
    errno.ENETUNREACH: _UNREACHABLE,
    errno.EHOSTDOWN: _UNREACHABLE,
    errno.ETIMEDOUT: _SILENT,
    errno.ECONNRESET: _CLOSED,
    errno.ECONNABORTED: _CLOSED,
    errno.EPIPE: _CLOSED,
    errno.ENOENT: _NO_SOCKET,
}
_BY_CLASS: Final[Mapping[type[OSError], int]] = {
    ConnectionRefusedError: errno.ECONNREFUSED,
    ConnectionResetError: errno.ECONNRESET,
    ConnectionAbortedError: errno.ECONNABORTED,
    BrokenPipeError: errno.EPIPE,
}
_UNKNOWN_HOST: Final = "the host name is unknown; correct it, or check DNS"
_NO_TLS: Final = "it does not speak TLS; use the scheme or protocol without TLS"
_NO_HTTP: Final = "it does not speak HTTP; correct the port"
_BY_KIND: Final[Sequence[tuple[type[Exception], str]]] = (
    (socket.gaierror, _UNKNOWN_HOST),
    (RemoteDisconnected, _CLOSED),
    (BadStatusLine, _NO_HTTP),
    (TimeoutError, _SILENT),
    (EOFError, _CLOSED),  # `asyncio.IncompleteReadError` is one
)
_NO_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")
_KAFKA_NAMES: Final[Mapping[str, str]] = {
    "ILLEGAL_SASL_STATE": "security_protocol has SASL, but the listener takes no SASL login "
    "(ILLEGAL_SASL_STATE)",
}
_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")  # in asyncio's list of several failed addresses


def file_error(error: OSError | UnicodeDecodeError) -> str:
    """Return why a file cannot be used, without the file's name."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not text in UTF-8 (byte {error.start})"
    if isinstance(error, FileNotFoundError):
        return "the file does not exist"
    if isinstance(error, IsADirectoryError):
        return "it is a folder, not a file"
    if isinstance(error, PermissionError):
        return f"the user {user()} has no permission"
    return (error.strerror or str(error)).lower()


class FileTrouble(NamedTuple):
    """A file that cannot be used; `detail` names it, and the reason."""

    option: str
    detail: str
    fix: str

    def __str__(self) -> str:
        return f"{self.option}: {self.detail}. {self.fix}"


class PemFile(NamedTuple):
    """A file of certificates or keys, and the option that names it."""

    option: str
    path: str

    def trouble(self, why: str, fix: str) -> FileTrouble:
        """Return why the file cannot be used, and the fix."""
        return FileTrouble(self.option, f"{self.path!r} cannot be used: {why}", fix)

    def unusable_text(self, kind: str) -> FileTrouble | None:
        """Return why the file's text cannot be used; None if it has a part of this kind.

        Args:
            kind: `certificate` or `private key`.
        """
        try:
            text = Path(self.path).read_bytes()
        except OSError as error:
            fix = "Correct the path, or let the gateway's user read the file."
            return self.trouble(file_error(error), fix)
        give = _GIVE[kind]
        if not text.strip():
            return self.trouble("it is empty", give)
        labels = sorted({label.decode() for label in _PEM_LABEL.findall(text)})
        if not labels:
            if text[:1] == _DER:
                return self.trouble("it is binary (DER or PKCS #12), not PEM", _CONVERT[kind])
            return self.trouble("it is not PEM: no line begins with -----BEGIN", give)
        if not any(label.endswith(kind.upper()) for label in labels):
            return self.trouble(f"it has no {kind}, only {' and '.join(labels)}", give)
        return None


_PEM_LABEL: Final = re.compile(rb"^-----BEGIN ([A-Z0-9 ]{1,40})-----", re.MULTILINE)
_DER: Final = b"\x30"  # an ASN.1 sequence, with which such files begin
_LOCKED: Final = (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED")
_COPY: Final = "Copy the whole file again."
_GIVE: Final[Mapping[str, str]] = {
    "certificate": "Give certificates in PEM.",
    "private key": "Give the private key in PEM, without a password.",
}
_CONVERT: Final[Mapping[str, str]] = {
    "certificate": "Convert it: openssl x509 -inform DER -in FILE -out FILE.pem",
    "private key": "Convert it: openssl pkey -inform DER -in FILE -out FILE.pem",
}


def authorities_trouble(file: PemFile) -> FileTrouble | None:
    """Return why a file of certificates cannot be used; None if it can."""
    if unusable := file.unusable_text("certificate"):
        return unusable
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file.path)
    except OSError:  # `ssl.SSLError` is one
        return file.trouble("a certificate in it is damaged", _COPY)
    return None


def key_pair_trouble(certificate: PemFile, key: PemFile) -> FileTrouble | None:
    """Return which file of a certificate and its key cannot be used, and why; None if both can."""
    trouble = authorities_trouble(certificate) or key.unusable_text("private key")
    if trouble:
        return trouble
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(certificate.path, key.path, password=no_password)
    except OSError as error:  # `ssl.SSLError` is one
        return _pair_trouble(certificate, key, getattr(error, "reason", None) or "")
    return None


def _pair_trouble(certificate: PemFile, key: PemFile, reason: str) -> FileTrouble:
    """Return the fault of a certificate and a key whose files are both PEM.

    Args:
        certificate: The file of the certificate.
        key: The file of its key.
        reason: The reason that OpenSSL gives; empty if it gives none.
    """
    text = Path(key.path).read_bytes()
    if any(mark in text for mark in _LOCKED):
        fix = "Give the key without a password: openssl pkey -in FILE -out FILE.pem"
        return key.trouble("its private key has a password", fix)
    if reason == "KEY_VALUES_MISMATCH":
        why = f"it is not the key of {certificate.option} = {certificate.path!r}"
        return key.trouble(why, "Give the key of this certificate.")
    if not reason:
        return key.trouble("its private key is damaged", _COPY)
    fix = "Issue a certificate that OpenSSL takes at its security level."
    return certificate.trouble(f"OpenSSL refuses it ({_spelled(reason)})", fix)


def no_password() -> bytes:
    """Return a wrong password, so that OpenSSL does not ask for one on the terminal."""
    return b"-"


def connection_error(error: BaseException) -> str:
    """Return why a connection failed, and the fix, without the address."""
    for each in _chain(error):
        if text := _specific(each):
            return text
    return _plain(error)


def cause(error: BaseException) -> str:
    """Return why a connection failed, without names, addresses and the fix; empty if unknown.

    Clients may see it.
    """
    for each in _chain(error):
        if isinstance(each, PermissionError):
            return "the gateway's user has no permission to connect"
        if isinstance(each, ssl.SSLCertVerificationError):  # its text may end with an address
            return _specific(each).partition(",")[0]
        if text := _specific(each):
            return text.partition(";")[0]
    return ""


def is_tls_error(error: BaseException) -> bool:
    """Return whether a TLS handshake failed."""
    return any(isinstance(each, ssl.SSLError) for each in _chain(error))


def is_untrusted(error: BaseException) -> bool:
    """Return whether the certificate of the other side is not trusted."""
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error))


def listen_error(error: OSError) -> str:
    """Return why a server cannot listen on an address, and the fix, without the address."""
    if error.errno == errno.EADDRINUSE:
        return "another program listens there; end it, or choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; correct the host"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"the user {user()} may not listen there; choose a port above 1023"
    if isinstance(error, socket.gaierror):
        return _UNKNOWN_HOST
    return (error.strerror or str(error)).lower()


def listen_option(error: OSError, host: str, port: str) -> str:
    """Return the option to correct: the host's if the address is wrong, else the port's."""
    is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    return host if is_host else port


def does_not_speak_tls(error: BaseException) -> bool:
    """Return whether a TLS handshake failed because the other side speaks another protocol."""
    return any(_specific(each) == _NO_TLS for each in _chain(error))


def is_closed_early(error: BaseException) -> bool:
    """Return whether the other side closed the connection before it answered."""
    return any(_specific(each) == _CLOSED for each in _chain(error))


def user() -> str:
    """Return the name, or else the number, of the user that the process runs as."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # the number has no name
        return f"number {os.geteuid()}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and what it was raised from, the `reason` of a URLError included."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        reason = getattr(error, "reason", None)
        error = (
            reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__
        )


def _specific(error: BaseException) -> str:
    # OpenSSL sets these attributes; errors that Python code makes, such as aiohttp's, lack them
    if isinstance(error, ssl.SSLCertVerificationError):
        why = getattr(error, "verify_message", "") or _verify_message(error)
        return f"its certificate is not trusted{why and ': '}{why.rstrip('.').lower()}"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or ""
        if not reason and (inner := error.__cause__ or error.__context__):
            return _specific(inner)
        return _NO_TLS if reason in _NO_TLS_REASONS else f"TLS fails: {_spelled(reason)}"
    for kind, text in _BY_KIND:
        if isinstance(error, kind):
            return text
    if isinstance(error, PermissionError):
        return f"the user {user()} has no permission to connect"
    if isinstance(error, OSError):
        number = error.errno or _number_of(error)
        if number is None and (listed := _NUMBER.search(str(error))):
            number = int(listed[1])
        return _BY_NUMBER.get(number or 0, "")
    return ""


def _verify_message(error: BaseException) -> str:
    """Return OpenSSL's words in the errors behind this one; empty if there are none."""
    messages = (getattr(each, "verify_message", "") for each in _chain(error))
    return next((message for message in messages if message), "")


def _plain(error: BaseException) -> str:
    """Return the error's own words without numbers, addresses in tuples and class names."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else ""
    text = text or next((each for each in error.args if isinstance(each, str)), "")
    if not text.strip():
        text = getattr(error, "message", "")  # Kafka's name of a broker's error
    text = text.strip().split("\n")[0] if isinstance(text, str) else ""
    if type(error).__name__ == "InvalidResponse":  # of redis, whose import takes time
        return "it does not speak the protocol of Redis; correct the port"
    return _KAFKA_NAMES.get(text, text) or _named(error)


def _named(error: BaseException) -> str:
    """Return a sentence about an error that has no message."""
    name = type(error).__name__
    if "Timeout" in name or "TimedOut" in name:
        return _SILENT
    if "Connection" in name:
        return "there is no connection"
    words = re.sub(r"(Error|Exception)$", "", name)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words).lower()
    return f"an error without a message ({words or 'of no kind'})"


def _number_of(error: OSError) -> int | None:
    """Return the number of a class that stands for one, as code may raise it without."""
    return next((number for kind, number in _BY_CLASS.items() if isinstance(error, kind)), None)


def _spelled(reason: str) -> str:
    return reason.lower().replace("_", " ") or "the handshake did not end"
