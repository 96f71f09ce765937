"""The access of tests to a sandbox that they use past the console: by its kubeconfig and its credentials."""

from __future__ import annotations

import configparser
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.auth.tls import default_tls_context
from actions.sandbox.locate import CREDENTIALS, ProcessFile


@asynccontextmanager
async def http_of(kubeconfig: Path, *, has_token: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the sandbox's API, as the administrator or as nobody; paths are enough.

    Args:
        kubeconfig: Of the sandbox.
        has_token: Whether requests bring the administrator's token.
    """
    chosen = load_context(ClusterTarget(kubeconfig))
    tls = default_tls_context(chosen)
    assert tls is not None
    headers = {"Authorization": f"Bearer {chosen.token}"} if has_token else {}
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(chosen.server, connector=connector, headers=headers) as http:
        yield http


def process_of(folder: Path) -> ProcessFile:
    """Return the contents of the state file of a sandbox that runs."""
    return msgspec.json.decode((folder / "process.json").read_bytes(), type=ProcessFile)


def account_of(folder: Path) -> Mapping[str, str]:
    """Variables that lead AWS libraries into the sandbox's account."""
    read = configparser.ConfigParser()
    read.read_string((folder / CREDENTIALS).read_text())
    return {
        "AWS_ENDPOINT_URL": process_of(folder).aws_endpoint_url,
        "AWS_ACCESS_KEY_ID": read["default"]["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": read["default"]["aws_secret_access_key"],
        "AWS_EC2_METADATA_DISABLED": "true",
    }
