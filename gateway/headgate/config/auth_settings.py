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
    """Authentication of callers."""

    mode: Annotated[
        tuple[AuthMode, ...],
        about(
            "Ways to authenticate callers, one or several: no authentication (none, only alone), "
            "a token from the configuration (token), a signed token of an issuer (jwt), a TLS "
            "client certificate (mtls)."
        ),
    ] = ("none",)
    failed_attempts_per_minute: Annotated[
        int,
        about(
            "Wrong tokens that an address may send to a process. Above this, tokens are answered "
            "429 without a check, except tokens that were valid before from this address.",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = 30
    jwt_issuer: Annotated[
        str | None,
        about("The `iss` of signed tokens. Required by jwt.", example='"https://id.example"'),
    ] = None
    jwt_audience: Annotated[
        tuple[str, ...],
        about("The `aud` of signed tokens, any of these. Required by jwt.", example='["headgate"]'),
    ] = ()
    jwt_jwks_url: Annotated[
        str | None,
        about(
            "URL of the issuer's keys (a JWK Set): https://, file://, or http:// on this machine. "
            "Required by jwt.",
            example='"https://id.example/.well-known/jwks.json"',
        ),
    ] = None
    jwt_jwks_ca_file: Annotated[
        str | None,
        about(
            "Certificate authorities (PEM) for that https:// URL. Default: the system's.",
            example='"/etc/headgate/issuer-ca.pem"',
        ),
    ] = None
    jwt_algorithms: Annotated[tuple[JwtAlgorithm, ...], about("Accepted signature algorithms.")] = (
        "RS256",
        "PS256",
        "ES256",
        "EdDSA",
    )
    jwt_leeway_s: Annotated[
        int,
        about(
            "Tolerated difference from the issuer's clock, for `exp` and `nbf`.",
            minimum=0,
            maximum=600,
        ),
    ] = 30
    jwt_refresh_ms: Annotated[
        int, about("Interval between two fetches of the keys.", minimum=1_000, maximum=_DAY_MS)
    ] = 300_000
    jwt_unknown_key_ms: Annotated[
        int,
        about(
            "Shortest time between two fetches when tokens name an unknown key.",
            minimum=100,
            maximum=_DAY_MS,
        ),
    ] = 10_000
    jwt_keys_max_age_ms: Annotated[
        int,
        about(
            "Time for which keys stay valid when they cannot be fetched again. After it, signed "
            "tokens are answered 503.",
            minimum=1_000,
            maximum=30 * _DAY_MS,
        ),
    ] = _DAY_MS
    jwt_producer_claim: Annotated[
        str, about("Claim with the producer's name. A dot selects a member of an object.")
    ] = "sub"
    jwt_topics_claim: Annotated[
        str | None,
        about(
            "Claim with globs of the topics that the producer may post to: a list, or text "
            "separated by blanks. Default: `topics` of [producers.NAME].",
            example='"event_topics"',
        ),
    ] = None
    jwt_roles_claim: Annotated[
        str | None,
        about(
            "Claim with the roles: a list, or text separated by blanks. Default: `roles` of "
            "[producers.NAME].",
            example='"realm_access.roles"',
        ),
    ] = None
    jwt_produce_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that grant the role produce.")
    ] = ("produce",)
    jwt_view_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that grant the role view.")
    ] = ("view",)
    jwt_operate_values: Annotated[
        tuple[str, ...], about("Values of the roles claim that grant the role operate.")
    ] = ("operate",)
    mtls_name: Annotated[
        CertificateName,
        about(
            "Name in a client certificate that identifies the producer: the subject's common "
            "name, or a URI, DNS or e-mail name in subjectAltName."
        ),
    ] = "cn"

    @property
    def is_open(self) -> bool:
        """Whether nobody has to prove anything."""
        return self.mode == ("none",)
