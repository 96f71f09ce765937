"""Secrets Manager answers: the few secrets that a rehearsal can refer to.

Source: botocore's service model `secretsmanager` (2017-10-17).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actions.sandbox.cloud.jsoncalls import JsonRefusalError

SECRETS_MANAGER_TARGET = "secretsmanager.GetSecretValue"

_VALUES = {
    "eksml/hf-token": "hf_sandbox0000000000000000000000000000",
    "eksml/hf-token-refused": "hf_refused0000000000000000000000000000",
    "eksml/ngc-api-key": "sandbox-ngc-key",
}


def secret_value(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`GetSecretValue`."""
    name = str(asked.get("SecretId", ""))
    if name not in _VALUES:
        raise JsonRefusalError("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
    return {
        "ARN": f"arn:aws:secretsmanager:us-west-2:111122223333:secret:{name}",
        "Name": name,
        "SecretString": _VALUES[name],
    }
