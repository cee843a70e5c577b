"""A real broker that asks who is there: with SASL over TLS, or by the client's own certificate."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import KafkaInstallation
from support.process.stack import RunningBroker, free_port, single_node

SECRET = "let-me-in"
STORE_PASSWORD = "changeit"
USERS = ("gate", "guest", "gateway", "mirror", "runner")  # with PLAIN
_HERE = ip_address(LOOPBACK)
CERTIFIED = "certified"  # the user whose certificate is `SecuredBroker.certificate`


class Tokens(NamedTuple):
    """Whose tokens a broker takes. session_ms: how long a connection may last with one."""

    jwks_url: str
    issuer: str
    audience: str
    session_ms: int

    @property
    def java_options(self) -> str:
        """For JAVA_TOOL_OPTIONS: since 4.0 Kafka asks no server that is not named there."""
        return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.jwks_url}"


class SecuredBroker:
    """Of its `USERS` gate may do anything, others what they are allowed to. With PLAIN and, once
    `add_scram` was called, with SCRAM. `node.bootstrap` asks nobody anything.

    bootstrap: SASL over TLS.  mutual: TLS with the client's certificate.
    authority: the file with the broker's certificate.  tokens: whose are taken, with OAUTHBEARER.
    """

    def __init__(
        self, installation: KafkaInstallation, directory: Path, tokens: Tokens | None = None
    ) -> None:
        store, self.authority = make_certificate(installation, directory)
        self.certificate = ClientCertificate(directory, CERTIFIED)
        self.bootstrap, self.mutual = (f"{LOOPBACK}:{free_port()}" for _ in range(2))
        plan = single_node(directory / "node")
        plain = f"PLAINTEXT://{plan.bootstrap}"
        secured = f"SECURED://{self.bootstrap},MUTUAL://{self.mutual}"
        controller = f"CONTROLLER://{LOOPBACK}:{plan.controller_port}"
        options = {
            "listeners": f"{plain},{secured},{controller}",
            "advertised.listeners": f"{plain},{secured}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SECURED:SASL_SSL,MUTUAL:SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:gate;User:CN={CERTIFIED}",
            **_sasl("listener.name.secured.", tokens),
            **_keystore("listener.name.secured.", store),
            **_keystore("listener.name.mutual.", store),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(self.certificate.authority),
        }
        self.node = RunningBroker(installation, replace(plan, options=options))

    def add_scram(self, user: str, mechanism: str) -> None:
        """Give a user a SCRAM password, the `SECRET`."""
        kind = ScramMechanism[mechanism.replace("-", "_")]
        wanted = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(kind, 4096), SECRET.encode()
        )
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(30)

    def allow(
        self,
        user: str,
        kind: ResourceType,
        name: str,
        *operations: AclOperation,
        is_prefix: bool = False,
    ) -> None:
        """Let a user do something with what has this name, or a name that begins so."""
        pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
        rules = [_rule(user, kind, name, pattern, operation) for operation in operations]
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        for done in admin.create_acls(rules).values():
            done.result(30)


def _rule(
    user: str,
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType,
    operation: AclOperation,
) -> AclBinding:
    allowed = AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, allowed)


def _sasl(prefix: str, tokens: Tokens | None) -> dict[str, str]:
    users = " ".join(f'user_{one}="{SECRET}"' for one in USERS)
    package = "org.apache.kafka.common.security"
    scram = f"{package}.scram.ScramLoginModule required;"
    by_token = {} if tokens is None else _oauthbearer(f"{prefix}oauthbearer.", tokens)
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" + ",OAUTHBEARER" * bool(by_token)
    return {
        f"{prefix}sasl.enabled.mechanisms": mechanisms,
        **by_token,
        f"{prefix}plain.sasl.jaas.config": f"{package}.plain.PlainLoginModule required {users};",
        f"{prefix}scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}scram-sha-512.sasl.jaas.config": scram,
    }


def _oauthbearer(prefix: str, tokens: Tokens) -> dict[str, str]:
    package = "org.apache.kafka.common.security.oauthbearer"
    validator = "OAuthBearerValidatorCallbackHandler"
    return {
        f"{prefix}sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        f"{prefix}sasl.server.callback.handler.class": f"{package}.{validator}",
        f"{prefix}connections.max.reauth.ms": str(tokens.session_ms),
        "sasl.oauthbearer.jwks.endpoint.url": tokens.jwks_url,
        "sasl.oauthbearer.expected.issuer": tokens.issuer,
        "sasl.oauthbearer.expected.audience": tokens.audience,
    }


def _keystore(prefix: str, store: Path) -> dict[str, str]:
    return {
        f"{prefix}ssl.keystore.location": str(store),
        f"{prefix}ssl.keystore.password": STORE_PASSWORD,
        f"{prefix}ssl.keystore.type": "PKCS12",
    }


def make_certificate(installation: KafkaInstallation, directory: Path) -> tuple[Path, Path]:
    """Make a key and a certificate for the loopback address, with Java's keytool."""
    keytool = installation.java.resolve().parent / "keytool"
    store, certificate = directory / "keys.p12", directory / "authority.pem"
    common = ["-keystore", str(store), "-storepass", STORE_PASSWORD, "-alias", "broker"]
    pair = ["-genkeypair", "-keyalg", "RSA", "-validity", "2", "-dname", "CN=broker"]
    pair += ["-ext", f"san=ip:{LOOPBACK}", "-ext", "bc=ca:true", "-storetype", "PKCS12"]
    export = ["-exportcert", "-rfc", "-file", str(certificate)]
    for step in (pair, export):
        subprocess.run([str(keytool), *step, *common], check=True, capture_output=True)
    return store, certificate


class ClientCertificate:
    """A client's certificate and key, and the authority that signed it, as PEM files."""

    def __init__(self, directory: Path, name: str) -> None:
        self.authority, self.file, self.key = (
            directory / f"{name}.{end}.pem" for end in ("authority", "certificate", "key")
        )
        signer, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        root = _signed("authority", signer, "authority", signer, is_authority=True)
        self.authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
        signed = _signed(name, own, "authority", signer, is_authority=False)
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        pkcs8 = serialization.PrivateFormat.PKCS8
        self.key.write_bytes(own.private_bytes(serialization.Encoding.PEM, pkcs8, plain))


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(_HERE)]), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def sasl_toml(broker: SecuredBroker, user: str, mechanism: str, password: Path) -> str:
    """The options of `[clusters.<name>]` with which a user comes in. password: its file."""
    return (
        f'bootstrap_servers = ["{broker.bootstrap}"]\n'
        'security_protocol = "SASL_SSL"\n'
        f'sasl_mechanism = "{mechanism}"\n'
        f'sasl_username = "{user}"\n'
        f'sasl_password_file = "{password}"\n'
        f'ssl_cafile = "{broker.authority}"\n'
    )
