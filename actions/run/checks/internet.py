"""Checks that ask hosts on the internet: container registries, Hugging Face. What cannot be reached is unknown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address

import aiohttp
import msgspec

from actions.base.untrusted import one_line
from actions.run.checks.seen import Seen, failed, passed, unknown

HUGGINGFACE_VARIABLE = "HF_ENDPOINT"
_HUGGINGFACE = "https://huggingface.co"
_DEFAULT_REGISTRY = "registry-1.docker.io"
_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=5)
_ACCEPTED = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class Image(msgspec.Struct, frozen=True):
    """An image reference in its parts."""

    host: str
    name: str
    reference: str
    """A tag or a digest."""


def image_of(text: str) -> Image:
    """Read a reference as container runtimes do: `nginx`, `nvcr.io/nvidia/nemo:24.01`, `host:5000/a@sha256:…`."""
    rest, _, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    has_host = bool(slash) and ("." in head or ":" in head or head == "localhost")
    host, path = (head, tail) if has_host else (_DEFAULT_REGISTRY, rest)
    name, _, tag = path.partition(":")
    if host == _DEFAULT_REGISTRY and "/" not in name:
        name = f"library/{name}"
    return Image(host, name, digest or tag or "latest")


async def see_image(text: str, *, has_login: bool) -> Seen:
    """Whether a registry outside ECR has an image and gives it to anybody, or to pods that log in.

    Args:
        text: The image.
        has_login: The pods have credentials for the registry. They are not tried here.

    Source: OCI distribution specification 1.1; token authentication of the Docker registry.
    """
    image = image_of(text)
    url = f"{_scheme(image.host)}://{image.host}/v2/{image.name}/manifests/{image.reference}"
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
            status, headers = await _head(session, url, {"Accept": _ACCEPTED})
            if status == 401:
                token = await _token(session, headers.get("WWW-Authenticate", ""))
                if token:
                    bearer = {"Accept": _ACCEPTED, "Authorization": f"Bearer {token}"}
                    status, headers = await _head(session, url, bearer)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return unknown(f"{image.host} cannot be reached from here: {_words(error)}")
    return _image_seen(image, status, has_login=has_login)


async def see_huggingface(repository: str, token: str) -> Seen:
    """Whether Hugging Face lets a token read a repository: gated ones want a consent of the account first."""
    base = os.environ.get(HUGGINGFACE_VARIABLE, "").rstrip("/") or _HUGGINGFACE
    url = f"{base}/{repository}/resolve/main/config.json"
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
            status, headers = await _head(session, url, {"Authorization": f"Bearer {token}"})
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return unknown(f"{base} cannot be reached from here: {_words(error)}")
    code = headers.get("X-Error-Code", "")
    if status < 400:
        return passed(f"Hugging Face lets the token read {repository}.")
    if status == 401:
        return failed("Hugging Face does not accept the token (401).")
    if status == 403 or code == "GatedRepo":
        return failed(f"The token may not read {repository} (403): its licence has not been accepted by this account.")
    if status == 404:
        return failed(f"Hugging Face knows no {repository}, or hides it from this token (404).")
    return unknown(f"Hugging Face answered {status}.")


def _image_seen(image: Image, status: int, *, has_login: bool) -> Seen:
    where = f"{image.host}/{image.name}"
    if status < 300:
        return passed(f"{where} has {image.reference}.")
    if status in (401, 403):
        if has_login:
            return passed(f"{image.host} wants a login, and the pods have one.")
        return failed(f"{image.host} gives {image.name} only to those who log in ({status}).")
    if status == 404:
        return failed(f"{where} has no {image.reference}.")
    return unknown(f"{image.host} answered {status}.")


async def _head(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    async with session.head(url, headers=headers, allow_redirects=True) as answer:
        return answer.status, answer.headers


async def _token(session: aiohttp.ClientSession, challenge: str) -> str:
    """What a registry gives to anybody who asks; empty if nothing."""
    if not challenge.lower().startswith("bearer "):
        return ""
    parts = dict(_CHALLENGE.findall(challenge))
    query = {key: parts[key] for key in ("service", "scope") if key in parts}
    async with session.get(parts.get("realm", ""), params=query) as answer:
        if answer.status >= 400:
            return ""
        body = await answer.json(content_type=None)
    return str(body.get("token") or body.get("access_token") or "") if isinstance(body, dict) else ""


def _scheme(host: str) -> str:
    """Runtimes talk to registries on this machine without TLS."""
    name = host.rpartition(":")[0] or host
    try:
        is_here = ip_address(name).is_loopback
    except ValueError:
        is_here = name == "localhost"
    return "http" if is_here else "https"


def _words(error: BaseException) -> str:
    return one_line(str(error) or type(error).__name__).rstrip(".") + "."
