"""The settings of who may call: tokens of the configuration, signed tokens, client certificates."""

from dataclasses import dataclass
from typing import Annotated, Literal

from headgate.core.option import about

_DAY_MS = 86_400_000

AuthMode = Literal["none", "token", "jwt", "mtls"]
# Asymmetric ones alone: whoever can check a signature of HS256 can make one, too.
JwtAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
CertificateName = Literal["cn", "uri", "dns", "email"]


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Who may call, and how callers prove who they are."""

    mode: Annotated[
        tuple[AuthMode, ...],
        about(
            "How callers are known, one way or several: by nothing (none, alone), by a token of "
            "the configuration (token), by a signed token of an issuer (jwt), by the certificate "
            "of their TLS connection (mtls)."
        ),
    ] = ("none",)
    failed_attempts_per_minute: Annotated[
        int,
        about(
            "Wrong tokens that an address may send to a process; more are answered 429 unseen, "
            "except tokens that were right before from there.",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = 30
    jwt_issuer: Annotated[
        str | None,
        about("The `iss` of signed tokens; needed by jwt.", example='"https://id.example"'),
    ] = None
    jwt_audience: Annotated[
        tuple[str, ...],
        about("The `aud` of signed tokens, any of these; needed by jwt.", example='["headgate"]'),
    ] = ()
    jwt_jwks_url: Annotated[
        str | None,
        about(
            "Where the issuer's keys are (a JWK Set): https://, file://, or http:// on this "
            "machine; needed by jwt.",
            example='"https://id.example/.well-known/jwks.json"',
        ),
    ] = None
    jwt_jwks_ca_file: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM) of that https:// URL; none = the system's.",
            example='"/etc/headgate/issuer-ca.pem"',
        ),
    ] = None
    jwt_algorithms: Annotated[
        tuple[JwtAlgorithm, ...], about("Algorithms that a token may be signed with.")
    ] = ("RS256", "PS256", "ES256", "EdDSA")
    jwt_leeway_s: Annotated[
        int,
        about(
            "How far the issuer's clock may be off, for `exp` and `nbf`.", minimum=0, maximum=600
        ),
    ] = 30
    jwt_refresh_ms: Annotated[
        int, about("How often the keys are fetched again.", minimum=1_000, maximum=_DAY_MS)
    ] = 300_000
    jwt_unknown_key_ms: Annotated[
        int,
        about(
            "The least time between two fetches, when tokens name a key that is not known.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 10_000
    jwt_keys_max_age_ms: Annotated[
        int,
        about(
            "How long keys are trusted that cannot be fetched again; then signed tokens are "
            "answered 503.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    jwt_producer_claim: Annotated[
        str, about("The claim that names the producer. A dot leads into an object.")
    ] = "sub"
    jwt_topics_claim: Annotated[
        str | None,
        about(
            "The claim with the globs of the topics it may post to, a list or text with blanks; "
            "none = `topics` of [producers.NAME].",
            example='"event_topics"',
        ),
    ] = None
    jwt_roles_claim: Annotated[
        str | None,
        about(
            "The claim with its roles, a list or text with blanks; none = `roles` of "
            "[producers.NAME].",
            example='"realm_access.roles"',
        ),
    ] = None
    jwt_produce_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that mean the role produce.")
    ] = ("produce",)
    jwt_view_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that mean the role view.")
    ] = ("view",)
    jwt_operate_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that mean the role operate.")
    ] = ("operate",)
    mtls_name: Annotated[
        CertificateName,
        about(
            "Which name of a client certificate is the producer's: the subject's common name, or "
            "a URI, DNS or e-mail name of its subjectAltName."
        ),
    ] = "cn"

    @property
    def is_open(self) -> bool:
        """Whether nobody has to prove anything."""
        return self.mode == ("none",)
