"""The smallest blueprint with everything that a fault can hit: Terraform, a namespace of its own, logs, a curve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from actions.base.clock import SystemClock
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.launch import LaunchOrder, create_run

NAMESPACE = "schedules"
PODS = 2
STEPS = 40

_BLUEPRINT = """
schema: eksml/v1
id: small
title: A small life
summary: For fault schedules.
cluster: {name: bionemo-on-eks, region: us-west-2, namespace: schedules}
presets:
  rehearsal: {title: Rehearsal, is_cost_simulated: true}
stages:
  - {id: network, kind: terraform, title: Network, expect: 1s..5s, root: network}
  - id: access
    kind: kubeconfig
    title: Access
    needs: [network]
    expect: 1s..5s
    cluster: bionemo-on-eks
    region: us-west-2
  - {id: objects, kind: manifests, title: Objects, needs: [access], expect: 1s..5s, manifests: [objects.yaml]}
  - id: train
    kind: job
    title: Train
    needs: [objects]
    expect: 1s..9s
    manifests: [train.yaml]
    target: {api_version: batch/v1, kind: Job, name: train}
    watch: {logs: {pods: batch.kubernetes.io/job-name=train}, charts: [train_loss]}
"""

_OBJECTS = """
apiVersion: v1
kind: Namespace
metadata: {name: schedules}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: schedules}
data: {steps: "40"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: trainer, namespace: schedules}
"""

_TRAIN = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: schedules}
spec:
  completions: PODS
  parallelism: PODS
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: example.com/train, command: [sh, -c, "COMMAND"]}
"""

_ROOT = """
resource "terraform_data" "first" {
  provisioner "local-exec" { command = "echo made first >> LEDGER" }
  provisioner "local-exec" {
    when    = destroy
    command = "echo gone first >> LEDGER"
  }
}

resource "terraform_data" "second" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "sleep 0.7; echo made second >> LEDGER" }
  provisioner "local-exec" {
    when    = destroy
    command = "sleep 0.3; echo gone second >> LEDGER"
  }
}

output "first" { value = terraform_data.first.id }
"""


def printed_lines() -> list[str]:
    """Return the lines that each pod prints."""
    return [f"step {step}/{STEPS} loss {4.0 - step / 16:.4f}" for step in range(1, STEPS + 1)]


def make_run(
    folder: Path, *, kubeconfig: Path, environment: Mapping[str, str], auto_approve: bool, store_url: str = ""
) -> Path:
    """Make a run of the blueprint; nothing is started. The folder of all runs is that of `XDG_STATE_HOME`.

    Args:
        folder: Gets the blueprint, and `ledger`: one line for each resource that Terraform made or destroyed.
        kubeconfig: Of the cluster.
        environment: Of the run's processes.
        auto_approve: Whether plans are carried out without being asked about.
        store_url: Of the home that it is replicated to; empty for none.
    """
    command = "; ".join(f"echo {line}; sleep 2" for line in printed_lines())
    files = {
        "blueprint.yaml": _BLUEPRINT,
        "objects.yaml": _OBJECTS,
        "train.yaml": _TRAIN.replace("COMMAND", command).replace("PODS", str(PODS)),
        "network/main.tf": _ROOT.replace("LEDGER", str(folder / "ledger")),
    }
    source = folder / "blueprint"
    for path, text in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text, encoding="utf-8")
    blueprint = load_blueprint(source)
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}, preset="rehearsal"),
            target=ClusterTarget(kubeconfig),
            environment=environment,
            clock=SystemClock(),
            auto_approve=auto_approve,
            store_url=store_url,
        )
    )
