"""The secrets with which clients prove their rights: made when a sandbox starts, kept in its 0600 files only."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from urllib.parse import parse_qs, urlsplit

import msgspec

_EKS_TOKEN = "k8s-aws-v1."  # noqa: S105 - what EKS tokens begin with
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 .*?Credential=([^/\s,]+)/")


class AccessKey(msgspec.Struct, frozen=True):
    """Credentials of the account, in the form of those of AWS."""

    id: str
    """Known to the owner alone, so that it is the proof; signatures are not checked."""
    secret: str

    def has_signed(self, authorization: str) -> bool:
        """Return whether an `Authorization` header of AWS's Signature Version 4 names this key."""
        named = _CREDENTIAL.match(authorization)
        return named is not None and self._is(named[1])

    def has_made(self, token: str) -> bool:
        """Return whether a token of EKS, which is a presigned URL, names this key."""
        if not token.startswith(_EKS_TOKEN):
            return False
        encoded = token.removeprefix(_EKS_TOKEN)
        try:
            url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
            credential = parse_qs(urlsplit(url).query).get("X-Amz-Credential", [""])[0]
        except (binascii.Error, ValueError):
            return False
        return self._is(credential.partition("/")[0])

    def _is(self, name: str) -> bool:
        return hmac.compare_digest(name.encode(), self.id.encode())


class SandboxKeys(msgspec.Struct, frozen=True):
    """All that one sandbox accepts as a proof. Tokens have 256 random bits, the id of the access key 80."""

    administrator: str
    viewer: str
    access_key: AccessKey


def make_keys() -> SandboxKeys:
    """Make new ones."""
    identifier = "AKIA" + "".join(secrets.choice(_LETTERS) for _ in range(16))
    return SandboxKeys(
        secrets.token_urlsafe(32), secrets.token_urlsafe(32), AccessKey(identifier, secrets.token_urlsafe(30))
    )
