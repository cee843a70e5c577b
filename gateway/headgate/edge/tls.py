"""TLS for the HTTP ports."""

import ssl

from headgate.config.settings import HttpSettings

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {"optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(http: HttpSettings) -> ssl.SSLContext | None:
    """None where no certificate is configured.

    Raises OSError (`ssl.SSLError` is one) when a file cannot be used.
    """
    if http.tls_cert_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=http.tls_client_ca_file)
    context.minimum_version = _VERSIONS[http.tls_min_version]
    if http.tls_client_ca_file is not None:
        context.verify_mode = _CLIENTS[http.tls_client_auth]
    # Without a password OpenSSL would ask for the key's on the terminal.
    context.load_cert_chain(http.tls_cert_file, http.tls_key_file, password=lambda: b"-")
    return context
