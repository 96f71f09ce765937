"""The command that each check stands for, for people who follow a run by hand."""

from __future__ import annotations

from typing import assert_never

from actions.blueprint import checks
from actions.run.stages.names import ref_of_name


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
