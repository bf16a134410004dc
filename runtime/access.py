"""What a client of an HTTP service shows and checks when it connects: a token, and certificates.

Secrets come from files, so that none stands in the environment or on a command line. The token is read for every request, so a
rotated one takes effect at once; certificates are read when the client is made.
"""

import ssl
from dataclasses import dataclass

from surescale.contracts.errors import SurescaleError, reason_of
from surescale.contracts.foreign_files import contents
from surescale.runtime.kafka_security import client_context


class TokenUnreadable(SurescaleError):
    """The file with the token cannot be read now."""


@dataclass(frozen=True, slots=True)
class Access:
    """Files named by settings, for example ``SURESCALE_ENGINE_TOKEN_FILE``; an empty one is not used.

    Attributes:
        token_file: a bearer token, or a whole value of the header ``Authorization`` such as ``Basic dXNlcjpwYXNz``.
        ca_file: PEM file of the authorities that sign the service's certificate; empty: the system's.
        certificate_file: PEM file of this client's certificate chain, for mutual TLS.
        key_file: PEM file of the certificate's private key.
        settings: what the names of the settings begin with.
    """

    token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    settings: str = "SURESCALE_ENGINE"

    def headers(self) -> dict[str, str]:
        """Return the header that authorises a request; none without a token.

        Raises:
            TokenUnreadable: names the setting.
        """
        if not self.token_file:
            return {}
        try:
            token = contents(self.token_file).decode("ascii").strip()
        except OSError as error:
            raise TokenUnreadable(
                f"{self.settings}_TOKEN_FILE: {self.token_file} cannot be read ({reason_of(error)}); set it to a readable file"
            ) from None
        except UnicodeDecodeError:
            token = ""
        if not token or not token.isprintable():
            raise TokenUnreadable(f"{self.settings}_TOKEN_FILE: {self.token_file} holds no token; write one line into it")
        return {"Authorization": token if " " in token else f"Bearer {token}"}

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for https.

        Raises:
            SettingsError: a certificate or key cannot be used; names the settings.
        """
        return client_context(self.ca_file, self.certificate_file, self.key_file, settings=self.settings)
