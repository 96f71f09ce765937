"""The TLS certificate of one sandbox, made when it starts and gone with it.

It is there for kubectl, which sends no credentials to a server without TLS.

Source: client-go `tools/clientcmd/client_config.go`, `ClientConfig`: users are read only where
`restclient.IsConfigTransportTLS`.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actions.base.clock import Clock
from actions.base.files import write_private

_BEFORE, _AFTER = timedelta(days=365), timedelta(days=3650)
"""Wide enough for a clock that is set while the sandbox runs."""
_HOSTS = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")))


class Certificate(msgspec.Struct, frozen=True):
    """The certificate that a server shows, and the authority that a client trusts."""

    authority: bytes
    """In PEM. Its key is not kept, as it signs no other certificate."""
    tls: ssl.SSLContext


def make_certificate(clock: Clock) -> Certificate:
    """Make an authority and a certificate for 127.0.0.1 and `localhost`, signed by it."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("eksml-tui sandbox authority")
    is_authority = x509.BasicConstraints(ca=True, path_length=0)
    authority = (
        _begun(clock, issuer, authority_key.public_key())
        .issuer_name(issuer)
        .add_extension(is_authority, critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, SHA256())
    )
    shown = (
        _begun(clock, _name("eksml-tui sandbox"), key.public_key())
        .issuer_name(issuer)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_HOSTS), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, SHA256())
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory(prefix="eksml-") as folder:
        both = Path(folder) / "server.pem"
        key_bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(both, key_bytes + shown.public_bytes(Encoding.PEM))
        tls.load_cert_chain(both)
    return Certificate(authority.public_bytes(Encoding.PEM), tls)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(clock: Clock, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(clock.now() - _BEFORE)
        .not_valid_after(clock.now() + _AFTER)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
