"""TrainJobs and JobSets: what they make of each other, and how they end; and the indexes of Jobs below them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.errors import AccessError, ConsoleError
from actions.sandbox.apiserver.writes.admission import OperatorWebhooks
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import (
    CLUSTER_RUNTIMES,
    CONFIG_MAPS,
    DEFINITIONS,
    JOB_SETS,
    JOBS,
    NAMESPACES,
    PODS,
    RUNTIMES,
    TRAIN_JOBS,
    Document,
    Kind,
)
from actions.sandbox.controllers.core.jobs import INDEX
from actions.sandbox.controllers.trainer.job_set_objects import job_of, jobs_due
from actions.sandbox.controllers.trainer.train_job_objects import job_set_of, merged
from tests.unit.sandbox.controllers.server import bare_api, put_operator, until, whole_cluster

_OPERATORS = ("jobset-system/jobset-controller-manager", "kubeflow-system/kubeflow-trainer-controller-manager")
_NODE: Document = {
    "name": "node",
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "pytorch/pytorch:2.7.1"}]}}},
    },
}
_RUNTIME: Document = {
    "apiVersion": CLUSTER_RUNTIMES.api_version,
    "kind": CLUSTER_RUNTIMES.kind,
    "metadata": {"name": "torch-distributed"},
    "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [_NODE]}}},
}


_INDEXED = {
    "name": "node",
    "template": {"spec": {"completionMode": "Indexed", "template": {"spec": {"restartPolicy": "Never"}}}},
}


def a_train_job(**spec: Any) -> Document:
    trainer = {"numNodes": 2, "command": ["sh", "-c", "echo step $JOB_COMPLETION_INDEX of $PET_NODE_RANK"]}
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": "torch", "namespace": "default", "uid": "u"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec},
    }


def test_a_train_job_fills_the_template_of_its_runtime() -> None:
    gpus = {"limits": {"nvidia.com/gpu": 8}}
    patch = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"backoffLimit": 0}}}]}}}
    job = a_train_job(
        trainer={
            "numNodes": 2,
            "command": ["torchrun"],
            "resourcesPerNode": gpus,
            "env": [{"name": "A", "value": "b"}],
        },
        runtimePatches=[{"manager": "me.io/me", "trainingRuntimeSpec": patch}],
    )
    (replicated,) = job_set_of(job, _RUNTIME)["spec"]["replicatedJobs"]
    spec = replicated["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"], replicated["replicas"]) == (2, 2, 0, 1)
    assert (container["command"], container["resources"], container["ports"]) == (
        ["torchrun"], gpus, [{"containerPort": 29500, "protocol": "TCP"}],
    )  # fmt: skip
    assert values == {
        "A": "b", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "auto", "PET_NODE_RANK": None,
        "PET_MASTER_ADDR": "torch-node-0-0.torch", "PET_MASTER_PORT": "29500",
    }  # fmt: skip
    assert "replicas" not in _NODE, "the runtime itself is left as it is"


def test_named_lists_are_merged_by_name_and_others_replaced() -> None:
    before = {"containers": [{"name": "a", "image": "x"}, {"name": "b"}], "args": [1, 2]}
    change = {"containers": [{"name": "a", "command": ["c"]}], "args": [3]}
    assert merged(before, change) == {
        "containers": [{"name": "a", "image": "x", "command": ["c"]}, {"name": "b"}], "args": [3],
    }  # fmt: skip


def test_a_job_of_a_job_set_has_its_place_in_its_labels() -> None:
    jobs = [{**_NODE, "name": "data"}, {**_NODE, "replicas": 2, "dependsOn": [{"name": "data", "status": "Complete"}]}]
    network = {"enableDNSHostnames": True}
    job_set = {
        "apiVersion": JOB_SETS.api_version,
        "kind": JOB_SETS.kind,
        "metadata": {"name": "js", "namespace": "default", "uid": "u"},
        "spec": {"replicatedJobs": jobs, "network": network},
        "status": {"restarts": 3},
    }
    made = job_of(job_set, jobs[1], 1)
    marks = made["spec"]["template"]["metadata"]["annotations"]
    assert made["metadata"]["name"] == "js-node-1"
    assert made["spec"]["template"]["spec"]["subdomain"] == "js"
    assert {name.partition("/")[2]: marks[name] for name in sorted(marks)} == {
        "global-replicas": "3", "group-name": "default", "group-replicas": "3", "job-global-index": "2",
        "job-group-index": "2", "job-index": "1", "job-key": hashlib.sha1(b"default/js-node-1").hexdigest(),
        "jobset-name": "js", "jobset-uid": "u", "replicatedjob-name": "node", "replicatedjob-replicas": "2",
        "restart-attempt": "3",
    }  # fmt: skip
    begun = dict.fromkeys(("ready", "succeeded", "failed"), 0)
    assert [one["name"] for one in jobs_due(job_set, {"data": begun, "node": begun})] == ["data"]
    done = begun | {"succeeded": 1}
    assert [one["name"] for one in jobs_due(job_set, {"data": done, "node": begun})] == ["data", "node"]


async def _define(client: ApiClient, *kinds: Kind) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for kind in kinds:
        group, _, version = kind.api_version.partition("/")
        served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}
        names = {
            "kind": kind.kind,
            "listKind": f"{kind.kind}List",
            "plural": kind.plural,
            "singular": kind.kind.lower(),
        }
        scope = "Namespaced" if kind.is_namespaced else "Cluster"
        spec = {"group": group, "scope": scope, "names": names, "versions": [served | {"schema": schema}]}
        await client.create(DEFINITIONS, {"metadata": {"name": f"{kind.plural}.{group}"}, "spec": spec})


def _is(document: Document | None, condition: str) -> bool:
    told = ((document or {}).get("status") or {}).get("conditions") or ()
    return any(one["type"] == condition and one["status"] == "True" for one in told)


async def test_a_train_job_runs_to_its_end(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await _define(client, JOB_SETS, TRAIN_JOBS, RUNTIMES, CLUSTER_RUNTIMES)
        for operator in (
            "jobset-system/jobset-controller-manager",
            "kubeflow-system/kubeflow-trainer-controller-manager",
        ):
            await put_operator(client, operator)
        runtime = _RUNTIME | {"spec": merged(_RUNTIME["spec"], {"template": {"spec": {"replicatedJobs": [_INDEXED]}}})}
        await client.create(CLUSTER_RUNTIMES, runtime)
        await client.create(TRAIN_JOBS, a_train_job(suspend=True))
        waits = await until(client, TRAIN_JOBS, "default/torch", lambda one: _is(one, "Suspended"))
        assert waits["status"]["conditions"][0]["message"] == "TrainJob is suspended"
        await until(client, JOB_SETS, "default/torch", lambda one: _is(one, "Suspended"))
        await client.patch(TRAIN_JOBS, "default/torch", {"spec": {"suspend": False}})
        done = await until(client, TRAIN_JOBS, "default/torch", lambda one: _is(one, "Complete"))
        told = {one["type"]: (one["status"], one["reason"], one["message"]) for one in done["status"]["conditions"]}
        assert told["Suspended"] == ("False", "Resumed", "TrainJob is resumed")
        assert told["Complete"] == ("True", "AllJobsCompleted", "jobset completed successfully")
        assert done["status"]["jobsStatus"] == [
            {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
        ]
        job = await client.read(JOBS, "default/torch-node-0") or {}
        assert job["status"]["completedIndexes"] == "0,1"
        pods = (await client.session.get(PODS.path(namespace="default")))["items"]
        places = {pod["metadata"]["annotations"][INDEX]: pod for pod in pods}
        assert sorted(places) == ["0", "1"]
        assert places["1"]["spec"]["hostname"] == "torch-node-0-1"
        assert places["1"]["metadata"]["name"].startswith("torch-node-0-1-")
        snapshot = await client.read(CONFIG_MAPS, "default/torch-runtime-snapshot") or {}
        assert yaml.safe_load(snapshot["data"]["runtime"])["spec"] == runtime["spec"]


async def test_the_webhooks_fill_in_a_job_set_and_refuse_a_train_job_without_its_runtime(tmp_path: Path) -> None:
    async with bare_api(tmp_path, (OperatorWebhooks(),)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        await _define(client, JOB_SETS, TRAIN_JOBS, RUNTIMES, CLUSTER_RUNTIMES)
        for operator in (
            "jobset-system/jobset-controller-manager",
            "kubeflow-system/kubeflow-trainer-controller-manager",
        ):
            await put_operator(client, operator)
        spec = {"replicatedJobs": [_NODE], "failurePolicy": {"rules": [{"action": "FailJobSet"}]}}
        made = await client.create(JOB_SETS, {"metadata": {"name": "js", "namespace": "default"}, "spec": spec}) or {}
        job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
        assert (job["completionMode"], job["template"]["spec"]["restartPolicy"]) == ("Indexed", "OnFailure")
        assert made["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
        assert made["spec"]["failurePolicy"]["rules"][0]["name"] == "failurePolicyRule0"
        marks = {"jobset.sigs.k8s.io/jobset-name": "js"}
        metadata = {"name": "p", "namespace": "default", "annotations": marks}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        placed = await client.create(PODS, {"metadata": metadata, "spec": spec}) or {}
        assert placed["metadata"]["labels"] == {"jobset.sigs.k8s.io/priority": "0"}
        with pytest.raises(ConsoleError, match="specified clusterTrainingRuntime must be created before") as refused:
            await client.create(TRAIN_JOBS, a_train_job())
        assert isinstance(refused.value, AccessError)
