"""The check stage: looks at what must be true before anything expensive starts, and changes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.blueprint.parts import REFERENCE
from actions.blueprint.stages import CheckStage, NodesCheck, ObjectCheck, PodsCheck, PoolCheck, QuotaCheck
from actions.cloud.session import AwsSession
from actions.cluster.conditions import WorkState, verdict_of
from actions.cluster.objects import list_objects
from actions.run.access import Connection
from actions.run.handler import Performed, StageFailedError
from actions.run.patience import patiently
from actions.run.records import CheckResult, Finding
from actions.run.stages.names import ref_of_name
from actions.run.stages.objects import fetch_or_none
from actions.run.work import StageWork

AnyCheck = PodsCheck | ObjectCheck | NodesCheck | PoolCheck | QuotaCheck

PATIENCE_SECONDS = 60.0
"""What was just installed gets so long to become healthy."""
_LOOK_SECONDS = 1.0
_FAMILY = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)")
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class _Seen:
    result: CheckResult
    detail: str


class CheckHandler:
    """Looks until all required checks pass or it has been patient enough."""

    def __init__(self, work: StageWork) -> None:
        self._work = work
        stage = work.blueprint.stage(work.stage.id)
        self._checks: tuple[AnyCheck, ...] = stage.checks if isinstance(stage, CheckStage) else ()

    def describe(self) -> list[str]:
        return [f"# {check.title}: {_command_of(check, self._work.namespace)}" for check in self._checks]

    async def probe(self) -> Performed | None:
        return None

    async def perform(self) -> Performed:
        deadline = self._work.clock.monotonic() + PATIENCE_SECONDS
        while True:
            findings = await self._look()
            failed = [finding for finding in findings if finding.result is CheckResult.FAILED]
            required = [finding for finding in failed if self._is_required(finding)]
            if not required:
                return Performed(_summary(findings), findings=findings)
            if self._work.clock.monotonic() >= deadline:
                worst = required[0]
                raise StageFailedError(f"{worst.subject}: {worst.detail}", findings=findings, hint=worst.fix)
            self._work.journal.note(f"{required[0].subject}: {required[0].detail}")
            await self._work.clock.sleep(_LOOK_SECONDS)

    async def undo(self) -> str:
        return "It changed nothing."

    async def _look(self) -> tuple[Finding, ...]:
        connection = await self._work.connect()
        findings = []
        for check in self._checks:
            seen = await self._seen(connection, check)
            fix = "" if seen.result is CheckResult.PASSED else check.hint
            findings.append(Finding(seen.result, check.title, seen.detail, fix))
        return tuple(findings)

    async def _seen(self, connection: Connection, check: AnyCheck) -> _Seen:
        async def look() -> _Seen:
            try:
                return await self._ask(connection, check)
            except AccessError as error:
                return _Seen(CheckResult.UNKNOWN, error.message)
            except MissingError as error:
                return _Seen(CheckResult.FAILED, error.message)

        return await patiently(look, clock=self._work.clock, note=self._work.journal.note)

    async def _ask(self, connection: Connection, check: AnyCheck) -> _Seen:
        match check:
            case PodsCheck():
                return _pods(check, await self._list(connection, "v1", "Pod", check.selector, check.namespace))
            case NodesCheck():
                return _nodes(check, await self._list(connection, "v1", "Node", check.selector))
            case ObjectCheck():
                ref = ref_of_name(check.object, self._work.namespace)
                return _object(ref.describe(), await fetch_or_none(connection, ref))
            case PoolCheck():
                return await self._pool(connection, self._value(check.instance_type))
            case QuotaCheck():
                return await self._quota(check)
            case _ as never:
                assert_never(never)

    async def _pool(self, connection: Connection, instance_type: str) -> _Seen:
        selector = f"{_INSTANCE_TYPE}={instance_type}"
        nodes = await self._list(connection, "v1", "Node", selector)
        if nodes:
            return _Seen(CheckResult.PASSED, f"{len(nodes)} {instance_type} are there.")
        pools = await self._list(connection, "karpenter.sh/v1", "NodePool", "")
        allowing = [pool["metadata"]["name"] for pool in pools if allows_instance_type(pool, instance_type)]
        if allowing:
            return _Seen(CheckResult.PASSED, f"{', '.join(allowing)} may start {instance_type}.")
        return _Seen(CheckResult.FAILED, f"No node is a {instance_type}, and no NodePool may start one.")

    async def _quota(self, check: QuotaCheck) -> _Seen:
        wanted = float(self._value(check.amount))
        session = AwsSession(region=self._work.view.cluster.region, threads=1)
        try:
            answer = await session.call(
                "service-quotas", "get_service_quota", ServiceCode=check.service, QuotaCode=check.code
            )
            found = float(answer["Quota"]["Value"])
        except (ConsoleError, KeyError) as error:
            return _Seen(CheckResult.UNKNOWN, f"The quota {check.code} cannot be looked up: {error}")
        finally:
            session.close()
        result = CheckResult.PASSED if found >= wanted else CheckResult.FAILED
        return _Seen(result, f"The quota is {found:g}, {wanted:g} wanted.")

    async def _list(
        self, connection: Connection, api_version: str, kind: str, selector: str, namespace: str = ""
    ) -> list[dict[str, Any]]:
        return await list_objects(
            connection.session, connection.discovery, api_version, kind, namespace=namespace, label_selector=selector
        )

    def _value(self, text: str) -> str:
        return REFERENCE.sub(lambda match: str(self._work.binding.everything[match[1]]), text)

    def _is_required(self, finding: Finding) -> bool:
        return any(check.title == finding.subject and check.is_required for check in self._checks)


def allows_instance_type(pool: Mapping[str, Any], instance_type: str) -> bool:
    """Whether a Karpenter NodePool's requirements let it start this instance type.

    Requirements on what is not derived from the type's name (zones, capacity type) do not count.

    Source: karpenter.sh/v1 NodePool, `spec.template.spec.requirements`; labels of karpenter-provider-aws v1.
    """
    family, _, size = instance_type.partition(".")
    name = _FAMILY.match(family)
    known = {
        _INSTANCE_TYPE: instance_type,
        "beta.kubernetes.io/instance-type": instance_type,
        "karpenter.k8s.aws/instance-family": family,
        "karpenter.k8s.aws/instance-size": size,
        "karpenter.k8s.aws/instance-category": name["category"] if name else "",
        "karpenter.k8s.aws/instance-generation": name["generation"] if name else "",
    }
    requirements = (((pool.get("spec") or {}).get("template") or {}).get("spec") or {}).get("requirements") or ()
    return all(_is_met(entry, known[entry["key"]]) for entry in requirements if entry.get("key") in known)


def _is_met(requirement: Mapping[str, Any], value: str) -> bool:
    values = [str(item) for item in requirement.get("values") or ()]
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Gt":
            return _number(value) > _number(values[0])
        case "Lt":
            return _number(value) < _number(values[0])
        case "DoesNotExist":
            return False
    return True


def _number(text: str) -> float:
    return float(text) if text.isdigit() else math.nan


def _pods(check: PodsCheck, pods: list[dict[str, Any]]) -> _Seen:
    verdicts = [(pod["metadata"]["name"], verdict_of(pod)) for pod in pods]
    healthy = [name for name, verdict in verdicts if verdict.state in (WorkState.RUNNING, WorkState.FINISHED)]
    for name, verdict in verdicts:
        if name not in healthy:
            return _Seen(CheckResult.FAILED, f"{name}: {verdict.reason} {verdict.message}".strip())
    if len(healthy) < check.at_least:
        return _Seen(CheckResult.FAILED, f"{len(healthy)} pods, {check.at_least} wanted.")
    return _Seen(CheckResult.PASSED, f"{len(healthy)} pods are healthy.")


def _nodes(check: NodesCheck, nodes: list[dict[str, Any]]) -> _Seen:
    ready = [node for node in nodes if verdict_of(node).state is WorkState.RUNNING]
    fitting = [node for node in ready if _offers(node, check.resource) >= check.amount]
    if len(fitting) >= check.at_least:
        return _Seen(CheckResult.PASSED, f"{len(fitting)} nodes are ready.")
    with_what = f" with {check.amount} {check.resource}" if check.resource else ""
    return _Seen(
        CheckResult.FAILED, f"{len(fitting)} of {len(nodes)} nodes are ready{with_what}, {check.at_least} wanted."
    )


def _offers(node: Mapping[str, Any], resource: str) -> int:
    amount = str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))
    return int(amount) if amount.isdigit() else 0


def _object(name: str, found: Mapping[str, Any] | None) -> _Seen:
    if found is None:
        return _Seen(CheckResult.FAILED, f"{name} is not there.")
    verdict = verdict_of(found)
    words = verdict.message or verdict.reason
    if verdict.state in (WorkState.RUNNING, WorkState.FINISHED):
        return _Seen(CheckResult.PASSED, words)
    return _Seen(CheckResult.UNKNOWN if verdict.state is WorkState.UNKNOWN else CheckResult.FAILED, words)


def _summary(findings: tuple[Finding, ...]) -> str:
    passed = sum(finding.result is CheckResult.PASSED for finding in findings)
    others = [finding.subject for finding in findings if finding.result is not CheckResult.PASSED]
    return f"{passed} of {len(findings)} checks passed" + (f"; not: {', '.join(others)}." if others else ".")


def _command_of(check: AnyCheck, namespace: str) -> str:
    match check:
        case PodsCheck():
            return f"kubectl -n {check.namespace} get pods -l {check.selector}"
        case NodesCheck():
            return f"kubectl get nodes {f'-l {check.selector}' if check.selector else ''}".strip()
        case ObjectCheck():
            ref = ref_of_name(check.object, namespace)
            scope = f"-n {ref.namespace} " if ref.namespace else ""
            return f"kubectl {scope}get {ref.kind.lower()} {ref.name}"
        case PoolCheck():
            return "kubectl get nodepools -o yaml"
        case QuotaCheck():
            return f"aws service-quotas get-service-quota --service-code {check.service} --quota-code {check.code}"
        case _ as never:
            assert_never(never)
