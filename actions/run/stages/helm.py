"""The helm stage: one release of a chart, by the helm program; an existing release is used as it is."""

from __future__ import annotations

import base64
import binascii
import gzip
import shutil
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.errors import ConsoleError, UnreachableError
from actions.base.guard import require_guard
from actions.base.process import stream_tool
from actions.base.untrusted import one_line
from actions.blueprint.render import labels_of
from actions.blueprint.source_files import inside
from actions.blueprint.stages import HelmStage
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import AuditReport, Performed, StageFailedError
from actions.run.context.retry import TEARDOWN, RetryPolicy, retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.journal.folder import kubeconfig_path, load_environment
from actions.run.objects.inventory import RELEASE_VERSION, ref_of_name, wait_command
from actions.run.objects.ownership import SKEW_SECONDS, entry_of
from actions.run.objects.undo import StageUndo, delete_objects
from actions.run.objects.writes import apply_objects, wait_ready
from actions.run.output.program_log import ToolLog
from actions.run.state.view import OwnedObject

KIND = "Release"
READY_SECONDS = 900.0
_SPARE_SECONDS = 60.0


class Release(msgspec.Struct, frozen=True):
    """A release as helm keeps it in the cluster."""

    name: str
    chart: str
    """Name and version, `volcano 1.8.2`; empty if it cannot be read."""
    status: str
    """`deployed`, `failed`, `pending-install`…"""
    revision: int
    uid: str
    """Uid of the newest revision's Secret."""
    uids: frozenset[str]
    """Uids of all revisions' Secrets."""
    since: float
    """Creation of the oldest revision that is still kept, in seconds since the epoch."""


class HelmHandler:
    """The helm stage: installs a chart, or continues what an earlier attempt of this run has begun."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._stage = context.declared(HelmStage)

    def describe(self) -> list[str]:
        refs = [ref_of_name(name, self._context.namespace) for name in self._stage.ready]
        return [_line(self._install(self._stage.settings)), *map(wait_command, refs)]

    async def probe(self) -> Performed | None:
        return None  # a repeated install changes nothing that is already right

    async def perform(self) -> Performed:
        connection = await self._context.connect(RetryPolicy(self._deadline(), waits_for_login=True))
        found = await self._found(connection)
        if found is not None and not self._is_ours(found):
            await self._own(found.uid, existed=True)
            await self._wait(connection)
            return Performed(
                f"The release {found.name} ({found.chart or found.status}) was there already: used as it is."
            )
        settings = {key: self._context.text(value) for key, value in self._stage.settings.items()}
        argv = self._install(settings)
        self._require_helm(argv)
        await apply_objects(self._context, connection, [self._namespace()])
        if found is None:
            await self._own("")
        await self._run(argv, "install")
        await self._record(connection)
        await self._wait(connection)
        return Performed(f"{self._stage.chart} {self._stage.version} is installed as {self._stage.release}.")

    async def undo(self) -> str:
        connection = await self._context.connect(TEARDOWN)
        result = "Nothing was installed."
        found = await self._found(connection) if self._releases() else None
        if found is not None and self._is_ours(found):
            argv = self._uninstall()
            self._require_helm(argv)
            place = (self._stage.namespace, self._stage.release)
            await StageUndo(self._context, connection, release=place, revisions=found.uids).plan()
            await self._run(argv, "uninstall")
            result = "Uninstalled."
        elif found is not None:
            result = f"The release {found.name} is not the one that the run has installed, and was left alone."
        elif self._releases_made():
            result = "Uninstalled."
        for item in self._releases():
            await self._context.journal.deleted(replace(item, is_deleted=True))
        await delete_objects(self._context, connection)
        return result

    async def leftovers(self, policy: RetryPolicy, *, may_be_gone: bool) -> AuditReport:
        """Report the stage's release, if the run has installed it and it still exists.

        Args:
            policy: The retries until the cluster first answers.
            may_be_gone: The run has made the cluster and destroyed it: no answer means no leftovers.
        """
        owned = self._context.view.owned_by(self._context.stage.id)
        mine = [item for item in owned if item.kind == KIND and not item.existed]
        if not mine or not self._context.access.is_possible:
            return AuditReport()
        name = f"Helm release {mine[0].namespace}/{mine[0].name}"
        try:
            found = await self._found(await self._context.connect(policy))
        except ConsoleError as error:
            if may_be_gone and isinstance(error, UnreachableError):
                return AuditReport()
            return AuditReport(unknown=(f"{name}: {error.message}",))
        command = f"helm uninstall {mine[0].name} -n {mine[0].namespace}"
        line = f"{name}: {found.status}; remove: {command}" if found and self._is_ours(found) else ""
        return AuditReport((line,) if line else ())

    def _releases_made(self) -> bool:
        return any(item.kind == KIND and item.stage == self._context.stage.id for item in self._context.view.owned)

    def _releases(self) -> list[OwnedObject]:
        known = (*self._context.journal.owned(), *self._context.view.owned_by(self._context.stage.id))
        return [item for item in dict.fromkeys(known) if item.kind == KIND and not item.existed and not item.is_deleted]

    def _is_ours(self, found: Release) -> bool:
        """Return whether the run has installed it: by the Secret of a revision, else by its age."""
        return any(
            item.uid in found.uids if item.uid else found.since >= item.intended_at - SKEW_SECONDS
            for item in self._releases()
        )

    async def _record(self, connection: ClusterConnection) -> None:
        """Record the uid of the Secret that identifies the release."""
        found = await self._found(connection)
        if found is not None:
            await self._own(found.uid)

    async def _own(self, uid: str, *, existed: bool = False) -> None:
        await self._context.journal.own(
            OwnedObject(
                self._context.stage.id,
                RELEASE_VERSION,
                KIND,
                self._stage.namespace,
                self._stage.release,
                uid,
                existed=existed,
                is_deleted=False,
                was_absent=not uid,
            )
        )

    def _namespace(self) -> dict[str, Any]:
        labels = labels_of(self._context.view.id, self._context.stage.id)
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._stage.namespace, "labels": labels}}

    def _install(self, settings: Mapping[str, str]) -> list[str]:
        stage = self._stage
        argv = ["helm", "upgrade", "--install", stage.release, stage.chart, "--version", stage.version]
        argv += ["--namespace", stage.namespace, "--kubeconfig", str(kubeconfig_path(self._context.folder))]
        argv += ["--repo", stage.repository] if stage.repository else []
        argv += ["--values", str(inside(self._context.blueprint.folder, stage.values))] if stage.values else []
        for key, value in settings.items():
            argv += ["--set-string" if _is_text(value) else "--set", f"{key}={_escaped(value)}"]
        return [*argv, "--wait", "--timeout", f"{self._deadline():.0f}s"]

    def _uninstall(self) -> list[str]:
        stage = self._stage
        argv = ["helm", "uninstall", stage.release, "--namespace", stage.namespace]
        return [*argv, "--kubeconfig", str(kubeconfig_path(self._context.folder)), "--wait"]

    def _require_helm(self, argv: list[str]) -> None:
        if shutil.which("helm") is None:
            raise StageFailedError(
                "The helm program is not on PATH.",
                hint=f"Install Helm 3, or run this elsewhere, then retry: {_line(argv)}",
            )

    async def _run(self, argv: list[str], operation: str) -> None:
        with ToolLog(self._context, "helm", operation) as log:
            await require_guard(f"helm {operation}")
            await stream_tool(
                argv,
                on_line=log.take,
                deadline_seconds=self._deadline() + _SPARE_SECONDS,
                extra_environment=load_environment(self._context.folder),
            )

    def _deadline(self) -> float:
        return float(self._stage.deadline_seconds or READY_SECONDS)

    async def _found(self, connection: ClusterConnection) -> Release | None:
        async def look() -> Release | None:
            return await find_release(connection, self._stage.namespace, self._stage.release)

        return await retry_unreachable(look, clock=self._context.clock, note=self._context.journal.note)

    async def _wait(self, connection: ClusterConnection) -> None:
        refs = [ref_of_name(name, self._context.namespace) for name in self._stage.ready]
        await wait_ready(self._context, connection, refs, deadline_seconds=self._deadline())


async def find_release(connection: ClusterConnection, namespace: str, name: str) -> Release | None:
    """Return the newest revision of a release, `None` if there is none.

    Source: Helm 3's storage driver `secret`: type `helm.sh/release.v1`, labels `owner`, `name`, `status`, `version`.
    """
    secrets = await connection.list_objects(
        "v1",
        "Secret",
        namespace=namespace,
        label_selector=f"owner=helm,name={name}",
    )
    newest = max(secrets, key=_revision_of, default=None)
    if newest is None:
        return None
    kept = [entry_of(secret, "", "Secret") for secret in secrets]
    return Release(
        name=name,
        chart=_chart_of(newest),
        status=one_line(str(_labels_of(newest).get("status", ""))),
        revision=_revision_of(newest),
        uid=entry_of(newest, "", "Secret").uid,
        uids=frozenset(entry.uid for entry in kept),
        since=min(entry.created_at for entry in kept),
    )


def _labels_of(secret: Mapping[str, Any]) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = secret["metadata"].get("labels") or {}
    return labels


def _revision_of(secret: Mapping[str, Any]) -> int:
    revision = str(_labels_of(secret).get("version", "0"))
    return int(revision) if revision.isdigit() else 0


def _chart_of(secret: Mapping[str, Any]) -> str:
    """Return the chart and version of a release's Secret: JSON, in gzip, in base64, in the Secret's own base64."""
    try:
        packed = base64.b64decode(base64.b64decode(str((secret.get("data") or {}).get("release", ""))))
        metadata = msgspec.json.decode(gzip.decompress(packed))["chart"]["metadata"]
        return one_line(f"{metadata['name']} {metadata['version']}")
    except (binascii.Error, OSError, EOFError, msgspec.DecodeError, KeyError, TypeError):
        return ""


def _is_text(value: str) -> bool:
    return value not in ("true", "false") and not value.isdigit()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,")


def _line(argv: list[str]) -> str:
    return " ".join(part if part and not set(part) & set(" '\"${}[]*") else f"'{part}'" for part in argv)
