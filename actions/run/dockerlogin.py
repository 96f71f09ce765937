"""A configuration of docker's for one build: the operator's own logins and those of ECR, in memory where that can be.

`docker login` would write the password into the operator's home, and leave it there.
"""

from __future__ import annotations

import base64
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from actions.base.files import write_private
from actions.cloud.ecr import RegistryLogin

_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder made in it is private
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.I | re.M)
_KEPT = ("auths", "credHelpers", "proxies", "HttpHeaders")


@contextmanager
def docker_config(logins: Mapping[str, RegistryLogin]) -> Iterator[Path]:
    """A folder for `docker --config`, gone when the context is left.

    Args:
        logins: By host of the registry.
    """
    place = str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="eksml-docker-", dir=place) as name:
        folder = Path(name)
        write_private(folder / "config.json", msgspec.json.encode(_merged(_own_config(), logins)))
        yield folder


def registries_in(recipe: str) -> tuple[str, ...]:
    """Hosts of the registries that a Dockerfile's FROM lines name."""
    images = (match[1] for match in _FROM.finditer(recipe))
    hosts = (image.partition("/")[0] for image in images if "/" in image)
    return tuple(dict.fromkeys(host for host in hosts if "." in host))


def _merged(own: Mapping[str, Any], logins: Mapping[str, RegistryLogin]) -> dict[str, Any]:
    merged = {key: own[key] for key in _KEPT if isinstance(own.get(key), dict)}
    auths = dict(merged.get("auths") or {})
    for host, login in logins.items():
        pair = f"{login.username}:{login.password}".encode()
        auths[host] = {"auth": base64.b64encode(pair).decode()}
    helpers = {host: helper for host, helper in (merged.get("credHelpers") or {}).items() if host not in logins}
    return {**merged, "auths": auths, "credHelpers": helpers}


def _own_config() -> Mapping[str, Any]:
    folder = Path(os.environ.get("DOCKER_CONFIG", "") or Path.home() / ".docker")
    try:
        found = msgspec.json.decode((folder / "config.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}
