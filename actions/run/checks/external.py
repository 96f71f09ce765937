"""Checks outside of the cluster: AWS quotas, reservations and images, registries, Hugging Face.

A host that cannot be reached makes a check unknown, not failed.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from ipaddress import ip_address

import aiohttp
import msgspec

from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line
from actions.blueprint.checks import QuotaCheck
from actions.cloud.aws_session import AwsSession
from actions.cloud.ecr import Repository, fetch_digest
from actions.cloud.quotas import SPOT_CODES, VCPU_QUOTAS, fetch_quota, fetch_use
from actions.run.checks.capacity import (
    CAPACITY_BLOCK,
)
from actions.run.checks.observation import Observation, failed, passed, unknown

SPOT = "SPOT"


class SessionPool:
    """The AWS sessions that many checks use together, one for each region: credentials and clients are made once.

    Used on one loop; closed by its owner.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, AwsSession] = {}

    def session(self, region: str) -> AwsSession:
        """Return the session of a region."""
        if region not in self._sessions:
            self._sessions[region] = AwsSession(region=region, threads=_AT_ONCE)
        return self._sessions[region]

    def close(self) -> None:
        """Take no more calls; running ones end on their own."""
        for session in self._sessions.values():
            session.close()


_AT_ONCE = 8
"""Calls to AWS of all checks that share a session."""
_POOL: ContextVar[SessionPool | None] = ContextVar("pool", default=None)


@contextmanager
def pooled(pool: SessionPool) -> Iterator[None]:
    """Let `aws_session` take its sessions from a pool: here, and in tasks that are started here."""
    token = _POOL.set(pool)
    try:
        yield
    finally:
        _POOL.reset(token)


@asynccontextmanager
async def aws_session(region: str) -> AsyncIterator[AwsSession]:
    """Open a session for a few calls, or use that of the pool."""
    pool = _POOL.get()
    if pool is not None:
        yield pool.session(region)
        return
    session = AwsSession(region=region, threads=1)
    try:
        yield session
    finally:
        session.close()


async def check_quota(
    check: QuotaCheck, *, region: str, wanted: float, capacity_type: str = "", reservation: str = ""
) -> Observation:
    """Check that so much of a service quota is not in use yet.

    Args:
        check: The quota for instances on demand; for spot instances, that of the same families is looked up.
        region: Its region.
        wanted: In the quota's unit.
        capacity_type: `ON_DEMAND`, `SPOT` or `CAPACITY_BLOCK`, in any spelling; empty for what is not an instance.
        reservation: Its id, if the instances are reserved: these count already.
    """
    market = capacity_type.upper().replace("-", "_")
    if check.code in VCPU_QUOTAS and market == CAPACITY_BLOCK:
        return passed("Instances of a capacity block count for no quota.")
    if check.code in VCPU_QUOTAS and reservation:
        return passed("The instances are reserved: the quota has counted them since the reservation was made.")
    code = SPOT_CODES.get(check.code, check.code) if market == SPOT else check.code
    async with aws_session(region) as session:
        try:
            found = await fetch_quota(session, check.service, code)
        except ConsoleError as error:
            return unknown(f"The quota {code} cannot be looked up: {error.message}")
        try:
            used = await fetch_use(session, code)
        except ConsoleError as error:
            return _compared(found, wanted, f"what is in use is not known: {error.message}")
    if used is None:
        return _compared(found, wanted, "what is in use is not known.")
    detail = f"{used:g} of the quota of {found:g} are in use, {wanted:g} more are required."
    if check.existing_cluster_only and found - used < wanted <= found:
        return unknown(f"{detail} Nodes of the cluster that are there count in both.")
    return passed(detail) if found - used >= wanted else failed(detail)


def _compared(found: float, wanted: float, why: str) -> Observation:
    """Return the result without what is in use: too small a quota fails, another is not known to be enough."""
    detail = f"The quota is {found:g}, {wanted:g} required; {why}"
    return unknown(detail) if found >= wanted else failed(detail)


async def check_ecr_image(repository: Repository, reference: str) -> Observation:
    """Check that an image, by its tag or digest, is in ECR."""
    async with aws_session(repository.region) as session:
        try:
            digest = await fetch_digest(session, repository, reference)
        except ConsoleError as error:
            return unknown(f"ECR did not answer: {error.message}")
    if digest is None:
        return failed(f"{repository.url} has no image {reference}.")
    if digest == reference:
        return passed(f"{repository.name} has {digest[:19]}….")
    return passed(f"{repository.name}:{reference} is {digest[:19]}….")


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
    """The parts of an image reference."""

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


async def check_image(text: str, *, has_login: bool) -> Observation:
    """Check that a registry outside ECR has an image, and serves it anonymously or to pods with a login.

    Args:
        text: The image.
        has_login: The pods have credentials for the registry, which are not tried here.

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
        return unknown(f"{image.host} cannot be reached from here: {_text_of(error)}")
    return _image_observation(image, status, has_login=has_login)


async def check_address(url: str) -> Observation:
    """Check that a server has a file. What cannot be reached fails: whoever asks is about to fetch it."""
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
            status, _ = await _head(session, url, {})
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return failed(f"{url} cannot be reached from here: {_text_of(error)}")
    return passed(f"{url} can be fetched.") if status < 400 else failed(f"{url} cannot be fetched (HTTP {status}).")


async def check_huggingface(repository: str, token: str) -> Observation:
    """Check that a Hugging Face token may read a repository; a gated one requires the account's consent first."""
    base = os.environ.get(HUGGINGFACE_VARIABLE, "").rstrip("/") or _HUGGINGFACE
    url = f"{base}/{repository}/resolve/main/config.json"
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
            status, headers = await _head(session, url, {"Authorization": f"Bearer {token}"})
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return unknown(f"{base} cannot be reached from here: {_text_of(error)}")
    code = headers.get("X-Error-Code", "")
    if status < 400:
        return passed(f"The token may read {repository} on Hugging Face.")
    if status == 401:
        return failed("Hugging Face does not accept the token (401).")
    if status == 403 or code == "GatedRepo":
        return failed(f"The token may not read {repository} (403): its licence has not been accepted by this account.")
    if status == 404:
        return failed(f"Hugging Face has no {repository}, or hides it from this token (404).")
    return unknown(f"Hugging Face answered {status}.")


def _image_observation(image: Image, status: int, *, has_login: bool) -> Observation:
    where = f"{image.host}/{image.name}"
    if status < 300:
        return passed(f"{where} has {image.reference}.")
    if status in (401, 403):
        if has_login:
            return passed(f"{image.host} requires a login, and the pods have one.")
        return failed(f"{image.host} requires a login for {image.name} ({status}).")
    if status == 404:
        return failed(f"{where} has no {image.reference}.")
    return unknown(f"{image.host} answered {status}.")


async def _head(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    async with session.head(url, headers=headers, allow_redirects=True) as answer:
        return answer.status, answer.headers


async def _token(session: aiohttp.ClientSession, challenge: str) -> str:
    """Return the anonymous token of a registry; empty if it issues none."""
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
    """Return the URL scheme of a registry: container runtimes use no TLS for one on this machine."""
    name = host.rpartition(":")[0] or host
    try:
        is_here = ip_address(name).is_loopback
    except ValueError:
        is_here = name == "localhost"
    return "http" if is_here else "https"


def _text_of(error: BaseException) -> str:
    return one_line(str(error) or type(error).__name__).rstrip(".") + "."
