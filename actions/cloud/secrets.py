"""Secrets Manager: the text of a secret. It is handed on, never kept."""

from __future__ import annotations

from actions.base.errors import FormatError
from actions.cloud.session import AwsSession


async def fetch_secret(session: AwsSession, name: str) -> str:
    """The current value of a secret.

    Args:
        session: In the region of the secret.
        name: Its name or ARN.

    Raises:
        MissingError: There is none of that name.
        AccessError: No right for `secretsmanager:GetSecretValue`.
        UnreachableError: No answer.
        FormatError: It holds bytes, not a text.
    """
    answer = await session.call("secretsmanager", "get_secret_value", SecretId=name)
    value = answer.get("SecretString")
    if not isinstance(value, str) or not value.strip():
        raise FormatError(f"The secret {name} holds no text.", hint="Store it as a text in Secrets Manager.")
    return value.strip()
