"""TLS towards what we connect to, by three PEM files."""

import ssl

from surescale.contracts.errors import SettingsError


def client_context(ca_file: str, certificate_file: str, key_file: str, *, settings: str) -> ssl.SSLContext:
    """Return the context of a client; an empty file is not used.

    Args:
        ca_file: authorities that sign the server's certificate; empty: the system's.
        certificate_file: certificate chain of this client, for mutual TLS.
        key_file: the certificate's private key; empty: it is in the certificate's file.
        settings: what the names of the three settings begin with.

    Raises:
        SettingsError: a certificate or key cannot be used; names the settings.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        if certificate_file:
            context.load_cert_chain(certificate_file, key_file or None)
    except OSError as error:
        raise SettingsError(
            f"{settings}_CA_FILE, _CERTIFICATE_FILE, _KEY_FILE: cannot be used ({error}); set them to PEM files"
        ) from None
    return context
