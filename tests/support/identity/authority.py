"""An authority that signs certificates for tests, as PEM files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate.devstack.ports import LOOPBACK

_DAY = timedelta(days=1)
_SIGNS = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
    encipher_only=False, decipher_only=False,
)  # fmt: skip


class Pair(NamedTuple):
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """file: its own certificate. What it signs goes to the folder of this."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        signed = self._signed(name, self._key, [], _DAY, is_authority=True)
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        uri: str | None = None,
        dns: str | None = None,
        email: str | None = None,
        lasts: timedelta = _DAY,
        into: Pair | None = None,
    ) -> Pair:
        """A certificate for this common name, and for loopback. into: the files to overwrite."""
        names: list[x509.GeneralName] = [x509.IPAddress(ip_address(LOOPBACK))]
        names += [] if uri is None else [x509.UniformResourceIdentifier(uri)]
        names += [] if dns is None else [x509.DNSName(dns)]
        names += [] if email is None else [x509.RFC822Name(email)]
        own = ec.generate_private_key(ec.SECP256R1())
        signed = self._signed(name, own, names, lasts, is_authority=False)
        pair = into or Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        pair.key.write_bytes(own.private_bytes(serialization.Encoding.PEM, *form))
        return pair

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        names: list[x509.GeneralName],
        lasts: timedelta,
        *,
        is_authority: bool,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        begun = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + lasts)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        # As RFC 5280 wants them, to which Python holds certificates from 3.13 on.
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        begun = begun.add_extension(signer, critical=False)
        if is_authority:
            itself = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            begun = begun.add_extension(itself, critical=False)
            begun = begun.add_extension(_SIGNS, critical=True)
        if names:
            begun = begun.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return begun.sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
