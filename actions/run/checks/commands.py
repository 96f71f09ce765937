"""The command that each check stands for, for people who follow a run by hand."""

from __future__ import annotations

from typing import assert_never

from actions.blueprint.checks import (
    AnyCheck,
    CapacityCheck,
    DiskCheck,
    FilesCheck,
    NodesCheck,
    ObjectCheck,
    PodsCheck,
    PoolCheck,
    QuotaCheck,
    RegistryCheck,
    SecretCheck,
    ToolCheck,
    VersionCheck,
)
from actions.run.stages.names import ref_of_name


def command_of(check: AnyCheck, namespace: str) -> str:
    """One line of shell; what stands in `${…}` is the reader's to fill in."""
    match check:
        case PodsCheck() | NodesCheck() | ObjectCheck() | PoolCheck() | VersionCheck():
            return _kubectl(check, namespace)
        case QuotaCheck():
            return f"aws service-quotas get-service-quota --service-code {check.service} --quota-code {check.code}"
        case CapacityCheck():
            return f"aws ec2 describe-capacity-reservations --capacity-reservation-ids {check.reservation}".rstrip()
        case RegistryCheck():
            return f"docker manifest inspect {check.image}"
        case SecretCheck():
            return _secret(check)
        case DiskCheck():
            return f"kubectl -n {namespace} exec POD -- df -Pk {check.mount}"
        case FilesCheck():
            return f"kubectl -n {namespace} exec POD -- find {check.folder} -type f -name '{check.pattern}'"
        case ToolCheck():
            return f"command -v {check.program}"
        case _ as never:
            assert_never(never)


def _kubectl(check: PodsCheck | NodesCheck | ObjectCheck | PoolCheck | VersionCheck, namespace: str) -> str:
    match check:
        case PodsCheck():
            return f"kubectl -n {check.namespace} get pods -l {check.selector}"
        case NodesCheck(resource=resource):
            selector = f" -l {check.selector}" if check.selector else ""
            columns = resource.replace(".", "\\.")
            shown = f" -o custom-columns=NAME:.metadata.name,HAS:.status.allocatable.{columns}" if resource else ""
            return f"kubectl get nodes{selector}{shown}"
        case ObjectCheck():
            ref = ref_of_name(check.object, namespace)
            scope = f"-n {ref.namespace} " if ref.namespace else ""
            return f"kubectl {scope}get {ref.kind.lower()} {ref.name}"
        case PoolCheck():
            return "kubectl get nodepools -o yaml"
        case VersionCheck():
            return "kubectl version"
        case _ as never:
            assert_never(never)


def _secret(check: SecretCheck) -> str:
    if not check.huggingface:
        return f"# the secret {check.parameter} can be read"
    return (
        f'curl -I -H "Authorization: Bearer $TOKEN" https://huggingface.co/{check.huggingface}/resolve/main/config.json'
    )
