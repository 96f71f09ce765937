"""The TLS settings of one kubeconfig context.

Made here and not by the Kubernetes client library: importing that takes longer than loading a small cluster.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from pathlib import Path

from actions.base.errors import ConfigError
from actions.base.files import write_private
from actions.base.untrusted import one_line
from actions.cluster.kubeconfig import ChosenContext


def tls_of(chosen: ChosenContext) -> ssl.SSLContext | None:
    """How to talk to the server; `None` for one without TLS.

    With a certificate authority of its own, the system's are not trusted (and not loaded, which takes 50 ms).

    Raises:
        ConfigError: A certificate or key is missing or cannot be used.
    """
    if not chosen.server.startswith("https"):
        return None
    with tempfile.TemporaryDirectory(prefix="eksml-") as folder:
        authority = _file(chosen, "certificate-authority", chosen.ca_file, data=chosen.ca_data, folder=folder)
        certificate = _file(
            chosen, "client-certificate", chosen.certificate_file, data=chosen.certificate_data, folder=folder
        )
        key = _file(chosen, "client-key", chosen.key_file, data=chosen.key_data, folder=folder)
        try:
            context = ssl.create_default_context(cafile=authority)
            if certificate:
                context.load_cert_chain(certificate, key)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{chosen.file}: the certificates of {chosen.context} cannot be used: {one_line(str(error))}."
            ) from error
    # Python 3.13 asks for extensions that the certificate authorities of many clusters do not have
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if chosen.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _file(chosen: ChosenContext, key: str, path: str, *, data: str, folder: str) -> str | None:
    """A path for the TLS library; inline data goes to a private file that lives as long as the set-up."""
    if not data:
        if path and not Path(path).is_file():
            raise ConfigError(f"{chosen.file}: the {key} of {chosen.context} is {path}, which does not exist.")
        return path or None
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ConfigError(f"{chosen.file}: {key}-data of {chosen.context} is not base64.") from error
    target = Path(folder) / key
    write_private(target, decoded)
    return str(target)
