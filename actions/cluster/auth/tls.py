"""The TLS settings of a context in the usual case: a certificate authority of its own, always verified.

Made here and not by the Kubernetes client library, whose import takes longer than loading a small cluster. They are
the library's own settings: a test compares the two. All other cases are left to the library.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actions.base.errors import ConfigError
from actions.base.files import write_private
from actions.base.untrusted import one_line
from actions.cluster.auth.credentials import ClientCertificate
from actions.cluster.auth.kubeconfig import ChosenContext


class TlsFiles(msgspec.Struct, frozen=True):
    """Paths for the TLS library; `None` for a file that the context does not have."""

    authority: str | None
    certificate: str | None
    key: str | None


def default_tls_context(chosen: ChosenContext) -> ssl.SSLContext | None:
    """Return the TLS settings for the server; `None` if the case is not the usual one.

    With a certificate authority of its own the system's are not trusted (and not loaded, which takes 50 ms).

    Raises:
        ConfigError: A certificate or key is missing or cannot be used.
    """
    if chosen.is_insecure or not (chosen.ca_file or chosen.ca_data):
        return None
    with tls_files(chosen) as files:
        tls = ssl.create_default_context(cafile=files.authority)
        if files.certificate:
            tls.load_cert_chain(files.certificate, files.key)
    return tls


def load_client_certificate(chosen: ChosenContext, tls: ssl.SSLContext | None, shown: ClientCertificate) -> None:
    """Use this certificate in every handshake from here on.

    Raises:
        ConfigError: It cannot be used.
    """
    if tls is None:
        return
    with tempfile.TemporaryDirectory(prefix="eksml-") as folder:
        certificate, key = Path(folder) / "certificate", Path(folder) / "key"
        write_private(certificate, shown.certificate.encode())
        write_private(key, shown.key.encode())
        try:
            tls.load_cert_chain(certificate, key)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The client certificate that the exec plugin of {chosen.context} gives cannot be used:"
                f" {one_line(str(error))}."
            ) from error


@contextmanager
def tls_files(chosen: ChosenContext) -> Iterator[TlsFiles]:
    """Provide the context's certificates as files; inline data is in private files until the block ends.

    Raises:
        ConfigError: A file is missing, data is not base64, or the block fails on them with `OSError` or `ValueError`.
    """
    with tempfile.TemporaryDirectory(prefix="eksml-") as folder:
        files = TlsFiles(
            authority=_file(chosen, "certificate-authority", chosen.ca_file, data=chosen.ca_data, folder=folder),
            certificate=_file(
                chosen, "client-certificate", chosen.certificate_file, data=chosen.certificate_data, folder=folder
            ),
            key=_file(chosen, "client-key", chosen.key_file, data=chosen.key_data, folder=folder),
        )
        try:
            yield files
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{chosen.file}: the certificates of {chosen.context} cannot be used: {one_line(str(error))}."
            ) from error


def _file(chosen: ChosenContext, key: str, path: str, *, data: str, folder: str) -> str | None:
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
