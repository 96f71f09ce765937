"""Checks outside of the cluster: AWS quotas, reservations and images, registries, Hugging Face.

A host that cannot be reached makes a check unknown, not failed.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import aiohttp
import msgspec

from actions.base.errors import ConsoleError, MissingError
from actions.base.untrusted import one_line
from actions.blueprint.checks import QuotaCheck
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import Reservation, fetch_reservation
from actions.cloud.ecr import Repository, fetch_digest
from actions.run.checks.observation import Observation, failed, passed, unknown

CAPACITY_BLOCK = "CAPACITY_BLOCK"
BLOCK_ENDS_EARLY = timedelta(minutes=30)
"""Time before the end of a capacity block from which instances are terminated.

Source: EC2 user guide, Capacity Blocks for ML.
"""


@asynccontextmanager
async def aws_session(region: str) -> AsyncIterator[AwsSession]:
    """Open a session for a few calls."""
    session = AwsSession(region=region, threads=1)
    try:
        yield session
    finally:
        session.close()


async def check_quota(check: QuotaCheck, *, region: str, wanted: float) -> Observation:
    """Check that a service quota is at least `wanted`."""
    async with aws_session(region) as session:
        try:
            answer = await session.call(
                "service-quotas", "get_service_quota", ServiceCode=check.service, QuotaCode=check.code
            )
            found = float(answer["Quota"]["Value"])
        except (ConsoleError, KeyError) as error:
            return unknown(f"The quota {check.code} cannot be looked up: {error}")
    detail = f"The quota is {found:g}, {wanted:g} required."
    return passed(detail) if found >= wanted else failed(detail)


async def check_capacity(
    *, region: str, capacity_type: str, reservation_id: str, instance_type: str, count: int, now: datetime
) -> Observation:
    """Check that the named reservation has free instances, and that a capacity block names one."""
    if not reservation_id:
        if capacity_type == CAPACITY_BLOCK:
            return failed("A capacity block needs the id of its reservation.")
        return passed(f"{capacity_type}, without a reservation.")
    async with aws_session(region) as session:
        try:
            found = await fetch_reservation(session, reservation_id)
        except MissingError as error:
            return failed(error.message)
        except ConsoleError as error:
            return unknown(f"The reservation {reservation_id} cannot be looked up: {error.message}")
    return reservation_observation(found, instance_type=instance_type, count=count, now=now)


def reservation_observation(found: Reservation, *, instance_type: str, count: int, now: datetime) -> Observation:
    """Return the result for a reservation. The instances of a capacity block end half an hour before it does."""
    if found.state != "active":
        return failed(f"The reservation {found.id} is {found.state}.")
    if found.instance_type != instance_type:
        return failed(f"The reservation {found.id} is for {found.instance_type}, not {instance_type}.")
    if found.available < count:
        return failed(f"The reservation {found.id} has {found.available} of {found.total} left, {count} required.")
    detail = f"The reservation {found.id} has {found.available} × {instance_type} in {found.zone}"
    if found.ends_at is None:
        return passed(f"{detail}.")
    last = datetime.fromtimestamp(found.ends_at, UTC) - BLOCK_ENDS_EARLY
    if last <= now:
        return failed(
            f"The reservation {found.id} is over: EC2 has been ending its instances since {last:%Y-%m-%d %H:%M} UTC."
        )
    hours, minutes = divmod(int((last - now).total_seconds()) // 60, 60)
    return passed(
        f"{detail}. EC2 ends its instances from {last:%Y-%m-%d %H:%M} UTC on, in {hours} h {minutes} min:"
        " save checkpoints before."
    )


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
