"""Signatures of a simulated resource's calls, with the credentials that Terraform's provider would find."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping

from actions.base.errors import ConfigError

_SERVICE = "eks"
_ID, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_FILE = "AWS_SHARED_CREDENTIALS_FILE"


def signed_headers(environment: Mapping[str, str], method: str, url: str, body: bytes) -> dict[str, str]:
    """Headers by AWS's Signature Version 4; none where there are no credentials.

    Args:
        environment: Of the run; what it does not say is looked up in the process's own.
        method: Of the request.
        url: Its whole address.
        body: As it will be sent.

    Raises:
        ConfigError: The file of credentials cannot be read.
    """
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    variables = {**os.environ, **environment}
    found = _credentials_of(variables)
    if not found.get(_ID):
        return {}
    request = AWSRequest(method=method, url=url, data=body)
    credentials = Credentials(found[_ID], found.get(_SECRET, ""), found.get(_TOKEN) or None)
    SigV4Auth(credentials, _SERVICE, variables.get("AWS_REGION") or "us-west-2").add_auth(request)
    return {name: str(value) for name, value in request.headers.items()}


def _credentials_of(variables: Mapping[str, str]) -> Mapping[str, str]:
    """By the names of the variables."""
    file = variables.get(_FILE, "")
    if variables.get(_ID) or not file:
        return variables
    read = configparser.ConfigParser(interpolation=None)
    profile = variables.get("AWS_PROFILE") or "default"
    try:
        with open(file, encoding="utf-8") as source:
            read.read_file(source)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ConfigError(f"{file} holds no AWS credentials that can be read.", hint=f"Correct {_FILE}.") from error
    return {name: read.get(profile, name.lower(), fallback="") for name in (_ID, _SECRET, _TOKEN)}
