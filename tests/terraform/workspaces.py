"""Roots of the blueprints, planned and applied by the real `terraform` on the stub provider."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actions.terraform.program import require_program
from actions.terraform.working_directory import LOCK_FILE
from tests.terraform.stub import ROOTS, StubAccount

Variables = Mapping[str, str | int | float | bool]

COMMON: dict[str, str | int | float | bool] = {"run_id": "run-1", "region": "us-west-2"}
VARIABLES: Mapping[str, Variables] = {
    "network": {**COMMON, "cluster_name": "nemo", "zone": "us-west-2b"},
    "cluster": {
        **COMMON,
        "cluster_name": "a-cluster-with-thirty-letters-",
        "eks_version": "1.33",
        "core_instance_type": "m5.xlarge",
        "core_nodes": 2,
        "vpc_id": "vpc-1",
        "private_subnet_ids": "subnet-storage,subnet-other",
        "karpenter": True,
        "nvidia_plugin": True,
        "neuron_plugin": True,
        "efa_plugin": True,
        "fsx_csi": True,
        "endpoint_public_access_cidrs": "203.0.113.0/24, 198.51.100.7/32",
        "access_entries": '{"arn:aws:iam::111122223333:role/dev": "AmazonEKSViewPolicy"}',
        "results_bucket": "my-models/team/nemo",
        "namespace": "training",
    },
    "nodes": {
        **COMMON,
        "cluster_name": "nemo",
        "subnet_ids": "subnet-storage",
        "node_security_group_id": "sg-node",
        "node_group_name": "gpu",
        "instance_type": "p4de.24xlarge",
        "node_count": 2,
        "ami_type": "AL2023_x86_64_NVIDIA",
        "efa": True,
        "placement_group": True,
        "disk_gib": 500,
        "taints": '[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]',
    },
    "filesystem": {
        **COMMON,
        "cluster_name": "nemo",
        "vpc_id": "vpc-1",
        "vpc_cidr": "10.1.0.0/16",
        "subnet_id": "subnet-storage",
        "capacity_gib": 1200,
        "throughput_mbps_per_tib": 250,
        "has_data_repository": True,
    },
    "registry": {**COMMON, "repository_name": "nemo-aws"},
}
"""The variables that the stages hand to each root."""

FINDINGS: Sequence[Mapping[str, Any]] = (
    {"type": "aws_partition", "set": {"partition": "aws", "dns_suffix": "amazonaws.com"}},
    {
        "type": "aws_caller_identity",
        "set": {"account_id": "123456789012", "arn": "arn:aws:iam::111122223333:role/ops"},  # of moto's account
    },
    {"type": "aws_iam_session_context", "set": {"issuer_arn": "arn:aws:iam::111122223333:role/ops"}},
    {
        "type": "aws_availability_zones",
        "set": {
            "names": ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"],
            "zone_ids": ["usw2-az2", "usw2-az1", "usw2-az3", "usw2-az4"],
        },
    },
    {"type": "aws_subnet", "match": {"id": "subnet-elsewhere"}, "set": {"availability_zone": "us-west-2d"}},
    {"type": "aws_subnet", "set": {"availability_zone": "us-west-2b"}},
    {"type": "aws_eks_cluster", "set": {"version": "1.33"}},
    {
        "type": "aws_ec2_instance_type",
        "match": {"instance_type": "p4de.24xlarge"},
        "set": {"maximum_network_cards": 4},
    },
    {
        "type": "aws_ec2_instance_type_offerings",
        "match": {"filter.instance-type": "p4de.24xlarge"},
        "set": {"locations": ["us-west-2a", "us-west-2b"]},
    },
)
"""The objects that data sources find in the stub's account."""


class Change:
    """One managed resource of a plan: what happens to it, and its planned attributes."""

    def __init__(self, shown: Mapping[str, Any]) -> None:
        self.address = str(shown["address"])
        self.kind = str(shown["type"])
        self.actions = tuple(shown["change"]["actions"])
        self.after: dict[str, Any] = shown["change"]["after"] or {}


class Workspace:
    """A copy of one shared root with its state, on one stub account."""

    def __init__(self, root: str, folder: Path, account: StubAccount, environment: Mapping[str, str]) -> None:
        self.root = root
        self.folder = copied_root(root, folder)
        self.account = account
        self._environment = {**os.environ, **environment, "STUB_ACCOUNT": str(account.folder)}

    def run(self, *arguments: str, is_refused: bool = False) -> str:
        """Run `terraform`; return its output, with that of standard error if it is to be refused."""
        done = subprocess.run(
            [str(require_program()), *arguments],
            cwd=self.folder,
            env=self._environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        shown = done.stdout + done.stderr
        assert (done.returncode != 0) == is_refused, shown
        return shown if is_refused else done.stdout

    def init(self) -> Workspace:
        """Install providers and modules."""
        self.run("init", "-input=false", "-no-color")
        return self

    def plan(self, variables: Variables) -> dict[str, Change]:
        """Return the planned changes of managed resources, by address, without those that change nothing."""
        self.write(variables)
        self.run("plan", "-input=false", "-no-color", "-var-file=test.tfvars.json", "-out=test.tfplan")
        shown = json.loads(self.run("show", "-json", "test.tfplan"))["resource_changes"]
        changes = [Change(item) for item in shown if item["mode"] == "managed"]
        return {item.address: item for item in changes if item.actions != ("no-op",)}

    def refused_plan(self, variables: Variables) -> str:
        """Return what Terraform says instead of a plan, on one line."""
        self.write(variables)
        shown = self.run("plan", "-input=false", "-no-color", "-var-file=test.tfvars.json", is_refused=True)
        return " ".join(shown.replace("│", " ").split())

    def apply(self, *, is_refused: bool = False) -> str:
        """Apply the newest plan."""
        return self.run("apply", "-input=false", "-no-color", "test.tfplan", is_refused=is_refused)

    def destroy(self, *, is_refused: bool = False) -> str:
        """Destroy everything in the state."""
        return self.run(
            "destroy",
            "-input=false",
            "-no-color",
            "-auto-approve",
            "-var-file=test.tfvars.json",
            is_refused=is_refused,
        )

    def write(self, variables: Variables) -> None:
        """Write the variables' file."""
        (self.folder / "test.tfvars.json").write_text(json.dumps(dict(variables)))

    def tracked(self) -> set[str]:
        """Return the addresses of the managed resources in the state."""
        lines = self.run("state", "list").splitlines()
        return {line for line in lines if not re.search(r"(^|\.)data\.", line)}


def copied_root(root: str, folder: Path) -> Path:
    """Copy a shared root without its lock file, whose hashes are those of the real providers."""
    shutil.copytree(ROOTS / root, folder)
    (folder / LOCK_FILE).unlink()
    return folder
