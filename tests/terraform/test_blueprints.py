"""Blueprints rehearsed with the roots of a real launch: console, runner and driver, real Terraform, the stub provider.

The sandbox is the cluster and what else AWS answers. The roots are the shared ones but for three things: no lock file;
the registry's host is written out, so that a launch does not look for archives of the modules; and what only a sandbox
can give is added (`a_blueprint`). Two blueprints have all roots but the registry; EKSML_EVERY_BLUEPRINT=1 plays all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from actions.blueprint.catalogue import load_blueprint
from actions.terraform.program import PROGRAM_VARIABLE, registry_of, require_program
from tests.support.missing import needs
from tests.support.program import Program
from tests.support.scripting import Playing
from tests.terraform.stub import ROOTS, StubAccount, provider_mirror
from tests.terraform.workspaces import FINDINGS, copied_root

BLUEPRINTS = ROOTS.parents[1]
REHEARSED = ROOTS.parent / "rehearsal"
FEW = {"bionemo-esm1nv": "preflight", "efa-nccl-tests": "fabric"}
ALL = {**FEW, "nemo-gpt3-5b": "fabric", "llama2-trn1-mpi": "fabric", "llama2-trn1-ray": "fabric"}
"""Blueprint → the last stage that is waited for: all roots are applied by then."""
PLAYED = ALL if os.environ.get("EKSML_EVERY_BLUEPRINT") else FEW
_CARDS = {"g5.8xlarge": 1, "p4de.24xlarge": 4, "trn1.32xlarge": 8}
_SCRIPT = """
eksml-script: 1
size: 160x45
deadline: 8m
steps:
  - wait: {{cluster: bionemo-on-eks, within: 1m}}
  - launch: {{blueprint: {name}, preset: rehearsal, set: {{region: us-west-2}}, auto_approve: true}}
  - wait: {{stage: {last}, is: succeeded, within: 3m}}
always:
  - teardown: {{confirm: {cluster}, delete_data: true, within: 4m}}
  - expect: {{audit: empty}}
"""
_REGISTRY = """output "repository_url" {
  value = "111122223333.dkr.ecr.${var.region}.amazonaws.com/${aws_ecr_repository.this.name}"
}
"""


def _joining() -> str:
    """Return the calls that let nodes of a group join the sandbox's cluster, as the rehearsal's root makes them."""
    text = (REHEARSED / "nodes" / "main.tf").read_text()
    body = text[text.index("locals {") : text.index('output "node_group_name"')]
    body = re.sub(r"^  accelerator = .*\n", "", body, count=1, flags=re.M)
    return body.rstrip().removesuffix("}") + "\n  depends_on = [aws_eks_node_group.this]\n}\n"


def findings() -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = [
        {
            "type": "aws_caller_identity",
            "set": {"account_id": "111122223333", "arn": "arn:aws:iam::111122223333:role/ops"},
        }
    ]  # the sandbox's
    for kind, cards in _CARDS.items():
        found.append(
            {"type": "aws_ec2_instance_type", "match": {"instance_type": kind}, "set": {"maximum_network_cards": cards}}
        )
        found.append(
            {
                "type": "aws_ec2_instance_type_offerings",
                "match": {"filter.instance-type": kind},
                "set": {"locations": ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"]},
            }
        )
    return [*found, *FINDINGS]


@pytest.fixture
def account(tmp_path: Path) -> StubAccount:
    """An empty AWS account that has the blueprints' instance types."""
    return StubAccount(tmp_path / "account", findings())


@pytest.fixture
def program(tmp_path: Path, account: StubAccount, terraform_environment: Mapping[str, str]) -> Iterator[Program]:
    """The program, whose Terraform works on the account."""
    settings = Path(terraform_environment["TF_CLI_CONFIG_FILE"]).read_text()
    mirror = provider_mirror(tmp_path / "mirror", account.folder)
    chosen = tmp_path / "terraformrc"
    chosen.write_text(
        re.sub(r'filesystem_mirror \{ path = ".*" \}', f'filesystem_mirror {{ path = "{mirror}" }}', settings)
    )
    started = Playing(tmp_path, {"TF_CLI_CONFIG_FILE": str(chosen), PROGRAM_VARIABLE: str(require_program())})
    yield started
    started.end_all()


def a_blueprint(folder: Path, name: str) -> str:
    """Copy a blueprint with the real roots in its rehearsal; return its cluster's name."""
    place = folder / name
    shutil.copytree(BLUEPRINTS / name, place)
    for component in ROOTS.parent.glob("*.yaml"):
        text, count = re.subn(r"^    roots:\n(?:      .*\n)+", "", component.read_text(), flags=re.M)
        if count:
            (place / "common").mkdir(exist_ok=True)
            (place / "common" / component.name).write_text(text)
    for root in ROOTS.iterdir():
        copy = copied_root(root.name, place / "common" / "terraform" / root.name)
        main = copy / "main.tf"
        named = f'"{registry_of(require_program())}/terraform-aws-modules/'
        main.write_text(main.read_text().replace('"terraform-aws-modules/', named))
    (place / "common" / "terraform" / "nodes" / "joining.tf").write_text(_joining())
    (place / "common" / "terraform" / "registry" / "outputs_override.tf").write_text(_REGISTRY)
    return load_blueprint(place).cluster.name


@needs("curl")
@pytest.mark.parametrize("name", PLAYED)
def test_a_blueprint_comes_and_goes_with_its_real_roots(
    name: str, program: Program, account: StubAccount, tmp_path: Path
) -> None:
    cluster = a_blueprint(tmp_path / "blueprints", name)
    script = tmp_path / "script.yaml"
    script.write_text(_SCRIPT.format(name=name, last=PLAYED[name], cluster=cluster))
    report = tmp_path / "report.json"
    done = program.run(
        "--demo", "--speed", "20", "--blueprints", str(tmp_path / "blueprints"), "--script", str(script),
        "--report", str(report), "--artifacts", str(tmp_path / "artifacts"),
        seconds=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert {step["result"] for step in told["steps"]} == {"passed"}
    made = {kind for verb, kind, _ in account.calls if verb == "create"}
    assert {"aws_vpc", "aws_eks_cluster", "aws_launch_template"} <= made
    assert "helm_release" in made
    assert account.objects() == {}
    (run,) = program.run_folders()
    assert list(run.glob("terraform/*/.terraform/providers")) == []
