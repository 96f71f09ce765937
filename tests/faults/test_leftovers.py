"""A teardown finds what it leaves in the account, and names who else uses what it removes: on the sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import boto3
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.objects.client import ObjectRef
from actions.run.client import load_run, send_request
from actions.run.journal.watched import end_watching
from actions.run.launch import LaunchOrder, create_run
from actions.run.state.records import Operator, RequestKind
from actions.run.state.view import RunState, RunView, StageState
from actions.run.store.elsewhere import note_elsewhere
from actions.run.teardown.sharing import local_users
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import a_run
from tests.faults.somebody import Somebody
from tests.support.sandboxes import account_of
from tests.support.smallrun import carry_out, own_name

SANDBOX_SPEED = 100.0
CLOCK = SystemClock()

BLUEPRINT = """
schema: eksml/v1
id: small
title: A small life
summary: For audits.
cluster: {name: CLUSTER, region: us-west-2, namespace: default}
parameters: {cluster_name: {type: text, title: Cluster, default: CLUSTER}}
presets:
  rehearsal: {title: Rehearsal, is_cost_simulated: true}
stages:
  - id: network
    kind: terraform
    title: Network
    own_cluster_only: true
    expect: 1s..5s
    root: root
    outputs: [vpc_id]
  - id: provision
    kind: terraform
    title: Cluster
    own_cluster_only: true
    needs: [network]
    expect: 1s..5s
    root: root
  - id: access
    kind: kubeconfig
    title: Access
    needs: [provision]
    expect: 1s..5s
    cluster: CLUSTER
    region: us-west-2
  - {id: objects, kind: manifests, title: Objects, needs: [access], expect: 1s..5s, manifests: [objects.yaml]}
"""
ROOT = 'resource "terraform_data" "vpc" {}\n\noutput "vpc_id" {\n  value = "vpc-0123456789abcdef0"\n}\n'
SIMULATION = '{"resources": ["terraform_data.vpc"], "outputs": {"vpc_id": "vpc-0123456789abcdef0"}}'
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@pytest.fixture(autouse=True)
def _account(sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner of this process works in the sandbox's account, and waits for stragglers a moment only."""
    for name, value in account_of(sandbox.kubeconfig.parent).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", sandbox.environment().get("PATH", os.environ["PATH"]))
    monkeypatch.setattr("actions.run.teardown.audit.ACCOUNT_SETTLE_SECONDS", 0.0)


def an_own_cluster(tmp_path: Path, sandbox: RunningSandbox, cluster: str) -> Path:
    """A run that makes its own cluster; nothing is started."""
    source = tmp_path / f"source-{cluster}"
    (source / "root").mkdir(parents=True, exist_ok=True)
    (source / "blueprint.yaml").write_text(BLUEPRINT.replace("CLUSTER", cluster))
    (source / "objects.yaml").write_text(CLAIM.replace("NAME", own_name(tmp_path)[:30]))
    (source / "root" / "main.tf").write_text(ROOT)
    (source / "root" / "simulation.json").write_text(SIMULATION)
    blueprint = load_blueprint(source)
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}, preset="rehearsal"),
            target=ClusterTarget(sandbox.kubeconfig),
            environment={},
            clock=CLOCK,
            auto_approve=True,
            base=tmp_path / "runs",
        )
    )


def client(service: str) -> Any:
    session: Any = boto3.Session()  # boto3's own one keeps the credentials of other tests
    return session.client(service, region_name="us-west-2")


async def torn_down(folder: Path, **request: Any) -> RunView:
    send_request(folder, RequestKind.TEARDOWN, start=False, **request)
    return await carry_out(folder)


async def test_a_teardown_names_every_leftover_its_price_and_the_command_that_removes_it(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    cluster = own_name(tmp_path)[:30]
    folder = an_own_cluster(tmp_path, sandbox, cluster)
    client("logs").create_log_group(logGroupName=f"/aws/eks/{cluster}-2/cluster")
    run = await carry_out(folder)
    assert run.state is RunState.SUCCEEDED, [(stage.id, stage.message) for stage in run.stages]
    owned = [{"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"}]
    volume = client("ec2").create_volume(
        AvailabilityZone="us-west-2a",
        Size=500,
        VolumeType="gp3",
        TagSpecifications=[{"ResourceType": "volume", "Tags": owned}],
    )["VolumeId"]
    cni = [{"Key": "cluster.k8s.amazonaws.com/name", "Value": cluster}]
    interface = client("ec2").create_network_interface(
        SubnetId="subnet-1", TagSpecifications=[{"ResourceType": "network-interface", "Tags": cni}]
    )["NetworkInterface"]["NetworkInterfaceId"]
    client("iam").create_role(RoleName=f"{cluster}-node", AssumeRolePolicyDocument="{}")
    client("logs").create_log_group(logGroupName=f"/aws/eks/{cluster}/cluster")
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    place, region = "arn:aws:{}:us-west-2:111122223333", "--region us-west-2"
    assert view.audit.leftovers == (
        f"AWS {place.format('ec2')}:volume/{volume}: tagged kubernetes.io/cluster/{cluster}; 500 GiB gp3; $0.0548/h; "
        f"remove: aws ec2 delete-volume --volume-id {volume} {region}",
        f"AWS {place.format('ec2')}:network-interface/{interface}: tagged cluster.k8s.amazonaws.com/name={cluster}; "
        f"remove: aws ec2 delete-network-interface --network-interface-id {interface} {region}",
        f"AWS arn:aws:iam::111122223333:role/{cluster}-node: role named like the cluster {cluster}; "
        f"remove: aws iam list-attached-role-policies --role-name {cluster}-node --output text "
        f"--query AttachedPolicies[].PolicyArn | xargs -rn1 aws iam detach-role-policy --role-name {cluster}-node "
        f"--policy-arn && aws iam delete-role --role-name {cluster}-node",
        f"AWS {place.format('logs')}:log-group:/aws/eks/{cluster}/cluster: named like the cluster {cluster}; "
        f"0 bytes; remove: aws logs delete-log-group --log-group-name /aws/eks/{cluster}/cluster {region}",
    )
    assert view.audit.unknown == ()
    client("ec2").delete_volume(VolumeId=volume)
    client("ec2").delete_network_interface(NetworkInterfaceId=interface)
    client("iam").delete_role(RoleName=f"{cluster}-node")
    client("logs").delete_log_group(logGroupName=f"/aws/eks/{cluster}/cluster")
    again = (await torn_down(folder)).audit
    assert again is not None
    assert again.is_clean, "each command removes its line"


async def test_a_cluster_with_another_run_in_it_is_not_removed_unless_that_is_asked_for(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    cluster = own_name(tmp_path)[:30]
    folder = an_own_cluster(tmp_path, sandbox, cluster)
    first = await carry_out(folder)
    assert first.state is RunState.SUCCEEDED
    guest = an_own_cluster(tmp_path, sandbox, cluster)  # finds the claim of the first
    (guest / "blueprint" / "objects.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guest}\n")
    second = await carry_out(guest)
    with pytest.raises(RefusedError, match=f"run {second.id} has 1 object in the cluster {cluster}") as refused:
        send_request(folder, RequestKind.TEARDOWN, start=False)
    assert "--even-if-shared" in refused.value.hint
    assert load_run(folder).state is RunState.SUCCEEDED, "nothing was written"
    with pytest.raises(RefusedError, match=f"run {first.id} has ") as refused:
        send_request(guest, RequestKind.TEARDOWN, start=False)
    assert first.id in refused.value.hint, "who tears the first down first is sent back to the second"
    assert second.id in refused.value.hint
    assert "none can be the first" in refused.value.hint
    note_elsewhere(guest, Operator("ben", "laptop-2"), 2, "")
    assert local_users(folder, first, deletes_data=False) == [], "what is known here of a run of another machine is old"
    end_watching(guest)
    assert (await torn_down(folder, even_if_shared=True)).state is RunState.TORN_DOWN
    assert (await torn_down(guest)).state is RunState.TORN_DOWN, "a run that is torn down uses nothing"


async def test_a_claim_that_pods_of_others_use_is_not_removed_unless_that_is_asked_for(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    name = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, objects=CLAIM)
    await carry_out(folder)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "example.com/program"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        },
    }
    await somebody.put(pod)
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert f"Pod default/{name} uses the claim {name}" in view.teardown[0].message
    assert "--even-if-shared" in view.teardown[0].message
    claim = ObjectRef("v1", "PersistentVolumeClaim", "default", name)
    found = await somebody.get(claim)
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    assert {stage.state for stage in view.stages} == {StageState.SUCCEEDED}
    await somebody.remove(ObjectRef("v1", "Pod", "default", name))
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    assert await somebody.get(claim) is None


async def test_another_operators_run_shows_itself_by_its_labels(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    cluster = own_name(tmp_path)[:30]
    folder = an_own_cluster(tmp_path, sandbox, cluster)
    await carry_out(folder)
    labels = {"eksml.dev/run": "of-a-colleague"}
    await somebody.put(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": cluster, "namespace": "default", "labels": labels},
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/work"}]}
                }
            },
        }
    )
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert f"run of-a-colleague has 1 object in the cluster {cluster}" in view.teardown[0].message
    assert {stage.state for stage in view.stages} == {StageState.SUCCEEDED}
    view = await torn_down(folder, even_if_shared=True)
    assert view.state is RunState.TORN_DOWN
    assert view.stage("provision").state is StageState.UNDONE
