"""The check stage: each kind of check carried out, and the command that it stands for. Changes nothing."""

from __future__ import annotations

import shutil
from typing import assert_never

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.blueprint import checks
from actions.blueprint.checks import AnyCheck
from actions.blueprint.parameters import holds
from actions.blueprint.stages import CheckStage
from actions.cloud.ecr import repository_of
from actions.run.checks.cluster import see_disk, see_files, see_nodes, see_object, see_pods, see_pool, see_version
from actions.run.checks.external import image_of, see_capacity, see_ecr_image, see_huggingface, see_image, see_quota
from actions.run.checks.observation import Seen, failed, passed, unknown
from actions.run.context.access import Connection
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import patiently
from actions.run.context.secrets import fetch_secrets
from actions.run.context.stage_context import StageWork
from actions.run.objects.inventory import ref_of_name
from actions.run.state.records import CheckResult, Finding
from actions.run.volume.helper_job import Volume


def command_of(check: checks.AnyCheck, namespace: str) -> str:
    """One line of shell; what stands in `${…}` is the reader's to fill in."""
    match check:
        case checks.QuotaCheck():
            return f"aws service-quotas get-service-quota --service-code {check.service} --quota-code {check.code}"
        case checks.CapacityCheck():
            return f"aws ec2 describe-capacity-reservations --capacity-reservation-ids {check.reservation}".rstrip()
        case checks.RegistryCheck():
            return f"docker manifest inspect {check.image}"
        case checks.SecretCheck():
            return _secret(check)
        case checks.DiskCheck():
            return f"kubectl -n {namespace} exec POD -- df -Pk {check.mount}"
        case checks.FilesCheck():
            return f"kubectl -n {namespace} exec POD -- find {check.folder} -type f -name '{check.pattern}'"
        case checks.ToolCheck():
            return f"command -v {check.program}"
        case _ as of_cluster:
            return _kubectl(of_cluster, namespace)


def _kubectl(check: checks.ClusterCheck, namespace: str) -> str:
    match check:
        case checks.PodsCheck():
            return f"kubectl -n {check.namespace} get pods -l {check.selector}"
        case checks.NodesCheck(resource=resource):
            selector = f" -l {check.selector}" if check.selector else ""
            columns = resource.replace(".", "\\.")
            shown = f" -o custom-columns=NAME:.metadata.name,HAS:.status.allocatable.{columns}" if resource else ""
            return f"kubectl get nodes{selector}{shown}"
        case checks.ObjectCheck():
            ref = ref_of_name(check.object, namespace)
            scope = f"-n {ref.namespace} " if ref.namespace else ""
            return f"kubectl {scope}get {ref.kind.lower()} {ref.name}"
        case checks.PoolCheck():
            return "kubectl get nodepools -o yaml"
        case checks.VersionCheck():
            return "kubectl version"
        case _ as never:
            assert_never(never)


def _secret(check: checks.SecretCheck) -> str:
    if not check.huggingface:
        return f"# the secret {check.parameter} can be read"
    return (
        f'curl -I -H "Authorization: Bearer $TOKEN" https://huggingface.co/{check.huggingface}/resolve/main/config.json'
    )


def see_tool(program: str) -> Seen:
    """Whether a program is on PATH."""
    found = shutil.which(program)
    return passed(f"{program} is {found}.") if found else failed(f"{program} is not on PATH.")


async def ask(work: StageWork, connection: Connection, check: checks.AnyCheck) -> Seen:
    """Look once.

    Raises:
        ConsoleError: The cluster cannot be asked, or says that something is not there.
    """
    match check:
        case checks.QuotaCheck() | checks.CapacityCheck():
            return await _ask_account(work, check)
        case checks.RegistryCheck():
            return await _ask_registry(work, check)
        case checks.SecretCheck():
            return await _ask_secret(work, check)
        case checks.DiskCheck() | checks.FilesCheck():
            return await _ask_volume(work, check)
        case checks.ToolCheck():
            return see_tool(check.program)
        case _ as of_cluster:
            return await _ask_cluster(work, connection, of_cluster)


async def _ask_cluster(
    work: StageWork,
    connection: Connection,
    check: checks.ClusterCheck,
) -> Seen:
    match check:
        case checks.PodsCheck():
            return await see_pods(connection, check)
        case checks.NodesCheck():
            return await see_nodes(
                connection,
                check,
                selector=work.text(check.selector),
                at_least=work.whole(check.at_least),
                amount=work.text(str(check.amount)),
            )
        case checks.ObjectCheck():
            return await see_object(connection, ref_of_name(check.object, work.namespace))
        case checks.PoolCheck():
            return await see_pool(connection, work.text(check.instance_type))
        case checks.VersionCheck():
            return await see_version(connection, check)
        case _ as never:
            assert_never(never)


async def _ask_account(work: StageWork, check: checks.QuotaCheck | checks.CapacityCheck) -> Seen:
    region = work.view.cluster.region
    if isinstance(check, checks.QuotaCheck):
        return await see_quota(check, region=region, wanted=work.number(check.amount))
    return await see_capacity(
        region=region,
        capacity_type=work.text(check.capacity_type),
        reservation_id=work.text(check.reservation),
        instance_type=work.text(check.instance_type),
        count=work.whole(check.count),
        now=work.clock.now(),
    )


async def _ask_registry(work: StageWork, check: checks.RegistryCheck) -> Seen:
    text = work.text(check.image)
    image = image_of(text)
    repository = repository_of(f"{image.host}/{image.name}")
    if repository is not None:
        return await see_ecr_image(repository, image.reference)
    has_login = bool(check.login and work.binding.values.get(check.login))
    return await see_image(text, has_login=has_login)


async def _ask_secret(work: StageWork, check: checks.SecretCheck) -> Seen:
    reference = str(work.binding.values.get(check.parameter, ""))
    if not reference:
        return failed(f"{check.parameter} is not given.")
    try:
        found = await fetch_secrets([reference], region=work.view.cluster.region)
    except ConsoleError as error:
        return failed(error.message)
    if not check.huggingface:
        return passed(f"{reference} can be read.")
    return await see_huggingface(check.huggingface, found[reference])


async def _ask_volume(work: StageWork, check: checks.DiskCheck | checks.FilesCheck) -> Seen:
    volume = Volume(work.namespace, check.claim, check.mount)
    if isinstance(check, checks.DiskCheck):
        return await see_disk(work, volume, work.number(check.free_gib))
    return await see_files(
        work,
        volume,
        folder=work.text(check.folder),
        pattern=check.pattern,
        at_least=work.whole(check.at_least),
    )


PATIENCE_SECONDS = 60.0
"""What was just installed gets so long to become healthy."""
_LOOK_SECONDS = 1.0


class CheckHandler:
    """Looks until all required checks pass or it has been patient enough."""

    def __init__(self, work: StageWork) -> None:
        self._work = work
        stage = work.blueprint.stage(work.stage.id)
        checks = stage.checks if isinstance(stage, CheckStage) else ()
        self._checks: tuple[AnyCheck, ...] = tuple(check for check in checks if holds(check.when, work.binding))

    def describe(self) -> list[str]:
        return [f"# {check.title}: {command_of(check, self._work.namespace)}" for check in self._checks]

    async def probe(self) -> Performed | None:
        return None

    async def perform(self) -> Performed:
        connection = await self._work.connect()
        deadline = self._work.clock.monotonic() + PATIENCE_SECONDS
        done: dict[int, Finding] = {}
        while True:
            await self._look(connection, done)
            findings = tuple(done[index] for index in range(len(self._checks)))
            required = [
                finding
                for finding, check in zip(findings, self._checks, strict=True)
                if finding.result is CheckResult.FAILED and check.is_required
            ]
            if not required:
                return Performed(_summary(findings), findings=findings)
            if self._work.clock.monotonic() >= deadline:
                worst = required[0]
                raise StageFailedError(f"{worst.subject}: {worst.detail}", findings=findings, hint=worst.fix)
            self._work.journal.note(f"{required[0].subject}: {required[0].detail}")
            await self._work.clock.sleep(_LOOK_SECONDS)

    async def undo(self) -> str:
        return "It changed nothing."

    async def _look(self, connection: Connection, done: dict[int, Finding]) -> None:
        """Ask for everything that has not been answered well: what passed or is unknown is not asked for again."""
        for index, check in enumerate(self._checks):
            known = done.get(index)
            if known is None or (known.result is CheckResult.FAILED and check.is_required):
                seen = await self._seen(connection, check)
                fix = "" if seen.result is CheckResult.PASSED else check.hint
                done[index] = Finding(seen.result, check.title, seen.detail, fix)

    async def _seen(self, connection: Connection, check: AnyCheck) -> Seen:
        async def look() -> Seen:
            try:
                return await ask(self._work, connection, check)
            except AccessError as error:
                return unknown(error.message)
            except MissingError as error:
                return failed(error.message)

        return await patiently(look, clock=self._work.clock, note=self._work.journal.note)


def _summary(findings: tuple[Finding, ...]) -> str:
    passed = sum(finding.result is CheckResult.PASSED for finding in findings)
    others = [finding.subject for finding in findings if finding.result is not CheckResult.PASSED]
    return f"{passed} of {len(findings)} checks passed" + (f"; not: {', '.join(others)}." if others else ".")
