"""The check stage: carries out each kind of check, and names the equivalent command. Changes nothing."""

from __future__ import annotations

from typing import assert_never

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.blueprint import checks
from actions.blueprint.checks import AnyCheck
from actions.blueprint.parameters import holds
from actions.blueprint.stages import CheckStage
from actions.cloud.ecr import repository_of
from actions.cloud.quotas import CODE_PREFIX
from actions.run.checks.cluster import (
    check_disk,
    check_files,
    check_nodes,
    check_object,
    check_pods,
    check_pool,
    check_version,
)
from actions.run.checks.external import (
    check_ecr_image,
    check_huggingface,
    check_image,
    check_quota,
    image_of,
)
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import retry_unreachable
from actions.run.context.secrets import fetch_secrets
from actions.run.context.stage_context import StageContext
from actions.run.objects.inventory import ref_of_name
from actions.run.state.records import CheckResult, StageFinding
from actions.run.volume.helper_job import RunVolume


def shell_command(check: checks.AnyCheck, namespace: str) -> str:
    """Return the equivalent shell command; references `${…}` are left for the reader to fill in."""
    match check:
        case checks.QuotaCheck():
            if not check.code.startswith(CODE_PREFIX):
                return f"aws service-quotas list-service-quotas --service-code {check.service}"
            return f"aws service-quotas get-service-quota --service-code {check.service} --quota-code {check.code}"
        case checks.RegistryCheck():
            return f"docker manifest inspect {check.image}"
        case checks.SecretCheck():
            return _secret(check)
        case checks.DiskCheck():
            return f"kubectl -n {namespace} exec POD -- df -Pk {check.mount}"
        case checks.FilesCheck():
            return f"kubectl -n {namespace} exec POD -- find {check.folder} -type f -name '{check.pattern}'"
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


async def run_check(context: StageContext, connection: ClusterConnection, check: checks.AnyCheck) -> Observation:
    """Carry out a check once.

    Raises:
        ConsoleError: The cluster cannot be reached, or lacks what is checked.
    """
    match check:
        case checks.QuotaCheck():
            return await run_quota_check(context, check)
        case checks.RegistryCheck():
            return await _check_registry(context, check)
        case checks.SecretCheck():
            return await _check_secret(context, check)
        case checks.DiskCheck() | checks.FilesCheck():
            return await _check_volume(context, check)
        case _ as of_cluster:
            return await _check_cluster(context, connection, of_cluster)


async def _check_cluster(
    context: StageContext,
    connection: ClusterConnection,
    check: checks.ClusterCheck,
) -> Observation:
    match check:
        case checks.PodsCheck():
            return await check_pods(connection, check)
        case checks.NodesCheck():
            return await check_nodes(
                connection,
                check,
                selector=context.text(check.selector),
                at_least=context.whole(check.at_least),
                amount=context.text(str(check.amount)),
            )
        case checks.ObjectCheck():
            return await check_object(connection, ref_of_name(check.object, context.namespace))
        case checks.PoolCheck():
            return await check_pool(connection, context.text(check.instance_type))
        case checks.VersionCheck():
            return await check_version(connection, check)
        case _ as never:
            assert_never(never)


async def run_quota_check(context: StageContext, check: checks.QuotaCheck) -> Observation:
    """Compare a quota with the run's values."""
    return await check_quota(
        check,
        region=context.view.cluster.region,
        wanted=context.number(check.amount),
        capacity_type=context.text(check.capacity_type),
        reservation=context.text(check.reservation),
    )


async def _check_registry(context: StageContext, check: checks.RegistryCheck) -> Observation:
    text = context.text(check.image)
    image = image_of(text)
    repository = repository_of(f"{image.host}/{image.name}")
    if repository is not None:
        return await check_ecr_image(repository, image.reference)
    has_login = bool(check.login and context.binding.values.get(check.login))
    return await check_image(text, has_login=has_login)


async def _check_secret(context: StageContext, check: checks.SecretCheck) -> Observation:
    reference = str(context.binding.values.get(check.parameter, ""))
    if not reference:
        return failed(f"{check.parameter} is not given.")
    try:
        found = await fetch_secrets([reference], region=context.view.cluster.region)
    except ConsoleError as error:
        return failed(error.message)
    if not check.huggingface:
        return passed(f"{reference} can be read.")
    return await check_huggingface(check.huggingface, found[reference])


async def _check_volume(context: StageContext, check: checks.DiskCheck | checks.FilesCheck) -> Observation:
    volume = RunVolume(context.namespace, check.claim, check.mount)
    if isinstance(check, checks.DiskCheck):
        return await check_disk(context, volume, context.number(check.free_gib))
    return await check_files(
        context,
        volume,
        folder=context.text(check.folder),
        pattern=check.pattern,
        at_least=context.whole(check.at_least),
    )


PATIENCE_SECONDS = 60.0
"""Time for what was just installed to become healthy."""
_LOOK_SECONDS = 1.0


class CheckHandler:
    """The check stage: repeats its checks until all required ones pass, or a minute is over."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        checks = context.declared(CheckStage).checks
        is_own = not context.binding.existing_cluster
        self._checks: tuple[AnyCheck, ...] = tuple(
            check
            for check in checks
            if holds(check.when, context.binding) and not (is_own and check.existing_cluster_only)
        )

    def describe(self) -> list[str]:
        return [f"# {check.title}: {shell_command(check, self._context.namespace)}" for check in self._checks]

    async def probe(self) -> Performed | None:
        return None

    async def perform(self) -> Performed:
        connection = await self._context.connect()
        deadline = self._context.clock.monotonic() + PATIENCE_SECONDS
        done: dict[int, StageFinding] = {}
        has_waited = False
        while True:
            await self._look(connection, done)
            if has_waited and not self._missing(done):
                await self._look(connection, done, again=True)
            findings = tuple(done[index] for index in range(len(self._checks)))
            required = self._missing(done)
            if not required:
                return Performed(summary_of(findings), findings=findings)
            if self._context.clock.monotonic() >= deadline:
                worst = required[0]
                raise StageFailedError(f"{worst.subject}: {worst.detail}", findings=findings, hint=worst.fix)
            self._context.journal.note(f"{required[0].subject}: {required[0].detail}")
            has_waited = True
            await self._context.clock.sleep(_LOOK_SECONDS)

    async def undo(self) -> str:
        return "A check changes nothing."

    def _missing(self, done: dict[int, StageFinding]) -> list[StageFinding]:
        """Return the findings of required checks that have failed."""
        return [
            done[index]
            for index, check in enumerate(self._checks)
            if done[index].result is CheckResult.FAILED and check.is_required
        ]

    async def _look(self, connection: ClusterConnection, done: dict[int, StageFinding], *, again: bool = False) -> None:
        """Carry out all checks that are due: all at first, then required ones that have failed.

        Args:
            connection: The run's cluster.
            done: The findings so far, by index; changed in place.
            again: Also those that only warn and have failed: what was waited for may have brought them about.
        """
        for index, check in enumerate(self._checks):
            known = done.get(index)
            if known is None or (known.result is CheckResult.FAILED and (check.is_required or again)):
                found = await self._observed(connection, check)
                fix = "" if found.result is CheckResult.PASSED else found.remedy or check.hint
                done[index] = StageFinding(found.result, check.title, found.detail, fix)

    async def _observed(self, connection: ClusterConnection, check: AnyCheck) -> Observation:
        async def look() -> Observation:
            try:
                return await run_check(self._context, connection, check)
            except AccessError as error:
                return unknown(error.message, remedy=error.hint)
            except MissingError as error:
                return failed(error.message)

        return await retry_unreachable(look, clock=self._context.clock, note=self._context.journal.note)


def summary_of(findings: tuple[StageFinding, ...]) -> str:
    """Return how many have passed, which have failed, and which are not known, with why."""
    passed = sum(finding.result is CheckResult.PASSED for finding in findings)
    clauses = [f"{passed} of {len(findings)} checks passed"]
    if without := [finding.subject for finding in findings if finding.result is CheckResult.FAILED]:
        clauses.append(f"failed: {', '.join(without)}")
    if unsure := [finding for finding in findings if finding.result is CheckResult.UNKNOWN]:
        reasons = [f"{one.subject} ({one.detail.rstrip('.')})" for one in unsure]
        clauses.append(f"not known: {', '.join(reasons)}")
    return f"{'; '.join(clauses)}."
