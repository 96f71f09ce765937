"""The image stage: an image in ECR by its digest, built and pushed with docker if it is missing.

The docker configuration of a build holds the operator's own logins and those of ECR, in memory where possible: `docker
login` would write the password into the operator's home and leave it there.
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
from msgspec.structs import replace

from actions.base.errors import ConsoleError
from actions.base.files import read_file, write_private
from actions.base.guard import require_guard
from actions.base.process import run_tool, stream_tool
from actions.blueprint.source_files import inside
from actions.blueprint.stages import ImageStage
from actions.cloud.aws_session import AwsSession
from actions.cloud.ecr import RegistryLogin, Repository, delete_image, fetch_digest, fetch_login, repository_of
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import retry_unreachable, wait_until
from actions.run.context.run_account import require_account
from actions.run.context.stage_context import StageContext
from actions.run.output.program_log import ToolLog
from actions.run.state.view import OwnedObject

_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder made in it is private
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.I | re.M)
_KEPT = ("auths", "credHelpers", "proxies", "HttpHeaders")


@contextmanager
def docker_config(logins: Mapping[str, RegistryLogin]) -> Iterator[Path]:
    """Create a folder for `docker --config`, which is removed at the end of the context.

    Args:
        logins: By host name of the registry.
    """
    place = str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="eksml-docker-", dir=place) as name:
        folder = Path(name)
        write_private(folder / "config.json", msgspec.json.encode(_merged(_own_config(), logins)))
        yield folder


def registries_in(recipe: str) -> tuple[str, ...]:
    """Return the host names of the registries in a Dockerfile's FROM lines."""
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
        found = msgspec.json.decode(read_file(folder / "config.json"))
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}


API = "ecr.amazonaws.com"
KIND = "Image"
BUILD_SECONDS = 3 * 3600.0
PLATFORM = "linux/amd64"

_DOCKER_SECONDS = 20.0
_SEEN_SECONDS = 60.0


class ImageHandler:
    """The image stage: reports the image by its digest, as a tag may be moved while a run waits for days."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._stage = context.declared(ImageStage)

    def describe(self) -> list[str]:
        name = f"{self._stage.repository}:{self._stage.tag}"
        return _commands(name, self._stage, "REGION") if self._stage.context else [f"docker manifest inspect {name}"]

    async def probe(self) -> Performed | None:
        return None  # perform looks the image up first anyway

    async def perform(self) -> Performed:
        await require_account(self._context)
        session = AwsSession(region=self._context.view.cluster.region, threads=1)
        try:
            repository = await self._repository(session)
            tag = self._context.text(self._stage.tag)
            digest = await self._digest(session, repository, tag)
            if digest is not None:
                await self._note_found(repository, tag, digest)
                return self._performed(repository, digest, f"{repository.name}:{tag} is in ECR, {digest[:19]}….")
            await self._require_docker(repository, tag)
            await self._own(repository, tag, "")
            await self._build(session, repository, tag)
            digest = await self._pushed(session, repository, tag)
            await self._own(repository, tag, digest)
        finally:
            session.close()
        return self._performed(repository, digest, f"{repository.name}:{tag} was built and pushed, {digest[:19]}….")

    async def undo(self) -> str:
        """Remove the image that this run has pushed; an older one stays."""
        made = [entry for entry in self._context.journal.owned() if not entry.existed]
        if made:
            await require_account(self._context)
        removed = 0
        session = AwsSession(region=self._context.view.cluster.region, threads=1)
        try:
            for item in made:
                repository = repository_of(item.namespace)
                if repository is not None and item.uid:
                    removed += await delete_image(session, repository, item.uid)
                await self._context.journal.deleted(replace(item, is_deleted=True))
        finally:
            session.close()
        return f"{removed} images removed from ECR." if removed else "No image of the run is left in ECR."

    def _performed(self, repository: Repository, digest: str, message: str) -> Performed:
        return Performed(message, outputs={"image": f"{repository.url}@{digest}", "digest": digest})

    async def _repository(self, session: AwsSession) -> Repository:
        text = self._context.text(self._stage.repository)
        if "/" not in text or "." not in text.partition("/")[0]:
            answer = await session.call("sts", "get_caller_identity")
            return Repository(str(answer["Account"]), self._context.view.cluster.region, text)
        found = repository_of(text)
        if found is None:
            raise StageFailedError(
                f"{text} is not an ECR repository.",
                hint="Name one in ECR, or use the image directly, without this stage.",
            )
        return found

    async def _digest(self, session: AwsSession, repository: Repository, tag: str) -> str | None:
        async def ask() -> str | None:
            return await fetch_digest(session, repository, tag)

        self._context.journal.note(f"Looking up {repository.name}:{tag} in ECR.")
        return await retry_unreachable(ask, clock=self._context.clock, note=self._context.journal.note)

    async def _require_docker(self, repository: Repository, tag: str) -> None:
        """Refuse with the commands for another machine, if the image cannot be built on this one."""
        name = f"{repository.url}:{tag}"
        if not self._stage.context:
            raise StageFailedError(f"{name} is not in ECR.", hint="Push it, then retry.")
        try:
            await run_tool(["docker", "version", "--format", "{{.Server.Version}}"], deadline_seconds=_DOCKER_SECONDS)
        except ConsoleError as error:
            folder = inside(self._context.blueprint.folder, self._stage.context)
            here = replace(self._stage, context=str(folder))
            lines = " && ".join(_commands(name, here, repository.region))
            raise StageFailedError(
                f"{name} is not in ECR, and docker does not work here: {error.message}.",
                hint=f"Build it on a machine with docker, then retry: {lines}",
            ) from error

    async def _build(self, session: AwsSession, repository: Repository, tag: str) -> None:
        folder = inside(self._context.blueprint.folder, self._stage.context)
        recipe = folder / self._stage.dockerfile
        name = f"{repository.url}:{tag}"
        logins = {}
        for host in dict.fromkeys([repository.registry, *registries_in(read_file(recipe).decode())]):
            other = repository_of(f"{host}/any")
            if other is not None:
                logins[host] = await fetch_login(session, other)
        arguments = [
            part
            for key, value in self._stage.build_args.items()
            for part in ("--build-arg", self._argument(key, value))
        ]
        with docker_config(logins) as config, ToolLog(self._context, "docker", "build") as log:
            docker = ["docker", "--config", str(config)]
            build = [*docker, "build", "--platform", PLATFORM, "--tag", name, "--file", str(recipe), *arguments]
            await require_guard("docker build")
            await stream_tool([*build, str(folder)], on_line=log.take, deadline_seconds=BUILD_SECONDS)
            await require_guard("docker push")
            await stream_tool([*docker, "push", name], on_line=log.take, deadline_seconds=BUILD_SECONDS)

    def _argument(self, key: str, value: str) -> str:
        return f"{key}={self._context.text(value)}"

    async def _pushed(self, session: AwsSession, repository: Repository, tag: str) -> str:
        found: list[str] = []

        async def look() -> str:
            digest = await fetch_digest(session, repository, tag)
            found[:] = [digest] if digest else []
            return "" if digest else f"ECR does not show {repository.name}:{tag} yet."

        await wait_until(
            look,
            clock=self._context.clock,
            note=self._context.journal.note,
            timeout=StageFailedError,
            deadline_seconds=_SEEN_SECONDS,
        )
        return found[0]

    async def _note_found(self, repository: Repository, tag: str, digest: str) -> None:
        """Record an image that was found: as pushed by an earlier attempt of this run, or as older."""
        made = [item for item in self._context.journal.owned() if item.name == tag and not item.existed]
        is_ours = any(item.uid == digest or bool(item.intended_at) for item in made)
        await self._own(repository, tag, digest, existed=not is_ours)

    async def _own(self, repository: Repository, tag: str, digest: str, *, existed: bool = False) -> None:
        await self._context.journal.own(
            OwnedObject(
                self._context.stage.id, API, KIND, repository.url, tag, digest, existed=existed, is_deleted=False
            )
        )


def _commands(name: str, stage: ImageStage, region: str) -> list[str]:
    registry = name.partition("/")[0]
    arguments = "".join(f" --build-arg {key}={value}" for key, value in stage.build_args.items())
    recipe = f"{stage.context}/{stage.dockerfile}"
    return [
        f"aws ecr get-login-password --region {region} | docker login --username AWS --password-stdin {registry}",
        f"docker build --platform {PLATFORM} --tag {name} --file {recipe}{arguments} {stage.context}",
        f"docker push {name}",
    ]
