"""TLS for the HTTP ports."""

import ssl

from headgate.config.settings import HttpSettings


def server_context(http: HttpSettings) -> ssl.SSLContext | None:
    """None where no certificate is configured. Raises OSError when a file cannot be used."""
    if http.tls_cert_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(http.tls_cert_file, http.tls_key_file)
    return context
