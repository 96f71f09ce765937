"""The place of a root's state: the backend that its operator has written, or the store of the run.

A store is a bucket. The state goes there by Terraform's own `s3` backend, by way of an override file in the working
directory: the root and the blueprint's copy stay as they are. A backend of the operator's is never overridden.

Sources: developer.hashicorp.com/terraform/language/backend/s3 and …/language/files/override; Terraform's upgrade guide
to 1.10 and changelog of 1.11.0: `use_lockfile` came as an experiment, and is generally available since 1.11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from actions.base.errors import RefusedError
from actions.base.files import read_file
from actions.terraform.hcl import blocks_in, source_of

OVERRIDE_FILE = "eksml_state_override.tf.json"
"""Our file in a working directory; Terraform reads names that end so after all others."""
OLDEST_FOR_HOME = (1, 10)
"""The first Terraform whose `s3` backend has `use_lockfile`."""

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_AWS_HOSTS = (".amazonaws.com", ".amazonaws.com.cn")
_FOR_OTHERS = {
    "use_path_style": True,
    "skip_credentials_validation": True,
    "skip_metadata_api_check": True,
    "skip_region_validation": True,
    "skip_requesting_account_id": True,
    "skip_s3_checksum": True,
}
"""Settings for a service that is like S3: it has no STS, no accounts and no hosts named after buckets."""


class StateBackend(msgspec.Struct, frozen=True):
    """The object in S3 that holds the state of one stage."""

    bucket: str
    key: str
    region: str
    """Of the bucket."""
    is_aws: bool = True
    """AWS itself answers, not a service like S3 that `AWS_ENDPOINT_URL` names."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of Terraform's `s3` backend. They hold no secret: credentials are in the environment."""
        own = {
            "bucket": self.bucket,
            "key": self.key,
            "region": self.region,
            "encrypt": True,
            "use_lockfile": True,
            "workspace_key_prefix": f"{self.key}.workspaces",  # listed by each command; a policy may allow no more
        }
        return own if self.is_aws else own | _FOR_OTHERS

    def configuration(self) -> bytes:
        """Return the file that configures the backend."""
        return backend_file("s3", self.settings())

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def backend_file(kind: str, settings: Mapping[str, Any]) -> bytes:
    """Return a file in Terraform's JSON syntax that configures a backend and nothing else."""
    return msgspec.json.format(msgspec.json.encode({"terraform": {"backend": {kind: dict(settings)}}}), indent=2)


def asks_aws(environment: Mapping[str, str]) -> bool:
    """Return whether requests to S3 go to AWS itself, by the variables for another endpoint."""
    address = next(filter(None, (environment.get(name, "") for name in _ENDPOINTS)), "")
    return not address or (urlsplit(address).hostname or "").endswith(_AWS_HOSTS)


def require_locks(version: tuple[int, int], store: str, title: str = "Terraform") -> None:
    """Refuse a program whose `s3` backend cannot lock a state in the bucket itself.

    Raises:
        RefusedError: It is too old.
    """
    if version < OLDEST_FOR_HOME:
        raise RefusedError(
            f"{title} {version[0]}.{version[1]} cannot lock a state in {store}: use_lockfile came with 1.10.",
            hint=f"Install {title} 1.10 or later, or launch without a store.",
        )


def own_backend(root: Path) -> str:
    """Return the kind of backend that a root configures itself: `s3`, `http`, `cloud`…; empty if it configures none.

    Files of Terraform's JSON syntax are read, too. Our own override does not count.
    """
    for block in blocks_in(source_of(root)):
        match block.headers:
            case [("terraform",), ("backend", kind)]:
                return kind
            case [("terraform",), ("cloud",)]:
                return "cloud"
    for path in sorted(root.glob("*.tf.json")):
        if path.name != OVERRIDE_FILE and (kind := _of_json(read_file(path))):
            return kind
    return ""


def _of_json(data: bytes) -> str:
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return ""  # Terraform refuses it with a better sentence
    for block in _members(document, "terraform"):
        for backend in _members(block, "backend"):
            return next(iter(backend), "")
        if any(True for _ in _members(block, "cloud")):
            return "cloud"
    return ""


def _members(block: object, name: str) -> Iterator[Mapping[str, Any]]:
    found = block.get(name) if isinstance(block, dict) else None
    yield from (item for item in (found if isinstance(found, list) else [found]) if isinstance(item, dict))
