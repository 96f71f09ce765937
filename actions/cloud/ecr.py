"""Images in ECR: which digest a tag has, where an account's registry is, how docker logs in to it."""

from __future__ import annotations

import base64
import re

import msgspec

from actions.base.errors import FormatError, MissingError, RefusedError
from actions.cloud.aws_session import AwsSession

_ADDRESS = re.compile(
    r"^(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<name>[a-z0-9][a-z0-9._/-]*)$"
)


class Repository(msgspec.Struct, frozen=True):
    """An ECR repository."""

    account: str
    region: str
    name: str

    @property
    def registry(self) -> str:
        """Host of its registry."""
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com"

    @property
    def url(self) -> str:
        """The name of its images without tag or digest."""
        return f"{self.registry}/{self.name}"


class RegistryLogin(msgspec.Struct, frozen=True):
    """User and password for `docker login`. The password is valid for twelve hours."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryLogin({self.username!r})"


def repository_of(url: str) -> Repository | None:
    """The repository behind `ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME`; `None` for an address outside ECR."""
    match = _ADDRESS.match(url)
    return Repository(match["account"], match["region"], match["name"]) if match else None


async def fetch_digest(session: AwsSession, repository: Repository, reference: str) -> str | None:
    """The digest of an image, `sha256:…`; `None` if there is no such repository or image.

    Args:
        session: With the account.
        repository: Where it is.
        reference: A tag, or the digest itself, which then is there or not.

    Raises:
        AccessError: No right for `ecr:DescribeImages`.
        UnreachableError: No answer.
        FormatError: ECR names no digest.
    """
    try:
        answer = await session.call(
            "ecr",
            "describe_images",
            region=repository.region,
            registryId=repository.account,
            repositoryName=repository.name,
            imageIds=[{"imageDigest" if reference.startswith("sha256:") else "imageTag": reference}],
        )
    except MissingError:
        return None
    for image in answer.get("imageDetails") or ():
        digest = str(image.get("imageDigest") or "")
        if digest.startswith("sha256:"):
            return digest
    raise FormatError(f"ECR returned no digest for {reference} of {repository.url}.")


async def fetch_login(session: AwsSession, repository: Repository) -> RegistryLogin:
    """A login for pushing to the repository's registry.

    Raises:
        AccessError: No right for `ecr:GetAuthorizationToken`.
        RefusedError: ECR gives no token.
    """
    answer = await session.call("ecr", "get_authorization_token", region=repository.region)
    for entry in answer.get("authorizationData") or ():
        username, _, password = base64.b64decode(str(entry.get("authorizationToken") or "")).decode().partition(":")
        if password:
            return RegistryLogin(username, password)
    raise RefusedError("ECR returned no login.", hint="Ask for the permission ecr:GetAuthorizationToken.")


async def delete_image(session: AwsSession, repository: Repository, digest: str) -> bool:
    """Remove an image with all its tags. Returns whether there was one.

    Raises:
        AccessError: No right for `ecr:BatchDeleteImage`.
        UnreachableError: No answer.
    """
    try:
        answer = await session.call(
            "ecr",
            "batch_delete_image",
            region=repository.region,
            registryId=repository.account,
            repositoryName=repository.name,
            imageIds=[{"imageDigest": digest}],
        )
    except MissingError:
        return False
    return bool(answer.get("imageIds"))
