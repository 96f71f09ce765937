"""Exporters, PodMonitors and TensorBoard against the DaemonSets, the definition and the trainers that they follow."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from actions.blueprint.parameters import bind, skipped_stages
from actions.blueprint.parts import Scalar
from actions.cluster import prometheus
from actions.sandbox.programs.exporters import GPU_METRICS
from tests.unit.blueprint.shipped import object_of, shipped
from tests.upstream.sources import overrides_of, source

GPU = ("bionemo-esm1nv", "efa-nccl-tests", "nemo-gpt3-5b")
NEURON = ("llama2-trn1-mpi", "llama2-trn1-ray")
TRAINERS = ("bionemo-esm1nv", "llama2-trn1-mpi", "llama2-trn1-ray", "nemo-gpt3-5b")
TRAINING = {
    "bionemo-esm1nv": ("PyTorchJob", "/fsx/own"),
    "nemo-gpt3-5b": ("PyTorchJob", "/fsx_shared/own"),
    "llama2-trn1-ray": ("RayJob", "/shared/own"),
}
FOLDERS = {"bionemo-esm1nv": "experiment_dir", "nemo-gpt3-5b": "results_dir", "llama2-trn1-ray": "output_dir"}
"""The parameters of the folders that trainers write to; that of Llama with MPI is fixed."""


def daemon_of(name: str) -> dict[str, Any]:
    spec = object_of(name, "exporters", "DaemonSet", given={"exporters": True}, outputs={})["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return {**container, "pod": spec}


@pytest.mark.parametrize("name", sorted({*GPU, *NEURON}))
def test_observability_is_off_unless_it_is_chosen(name: str) -> None:
    blueprint = shipped(name)
    chosen: dict[str, Scalar] = {key: True for key in ("exporters", "tensorboard") if key in blueprint.parameters}
    assert set(chosen) <= set(skipped_stages(blueprint, bind(blueprint, {})))
    assert not set(chosen) & set(skipped_stages(blueprint, bind(blueprint, chosen)))
    needed = {need for stage in blueprint.stages for need in stage.needs}
    assert set(chosen) <= needed  # a stage that is skipped holds nothing up


@pytest.mark.parametrize("name", GPU)
def test_the_gpu_exporter_is_that_of_nvidia(name: str) -> None:
    said, ours = source("dcgm_exporter"), daemon_of(name)
    assert (ours["image"], ours["args"]) == (said["image"], said["values"]["arguments"])
    values = {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in ours["env"]}
    assert values == said["environment"]
    assert ours["ports"] == [{"name": said["port"]["name"], "containerPort": said["port"]["number"]}]
    assert ours["securityContext"] == said["security"]
    assert ours["resources"] == {"requests": said["requests"], "limits": {"memory": said["values"]["memory_limit"]}}
    assert ours["pod"]["volumes"][0]["hostPath"]["path"] == said["host_path"]
    assert ours["volumeMounts"] == [{"name": "pod-gpu-resources", "mountPath": said["host_path"], "readOnly": True}]
    assert ours["readinessProbe"]["httpGet"]["path"] == said["values"]["health"]
    assert ours["pod"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


@pytest.mark.parametrize("name", NEURON)
def test_the_neuron_exporter_is_that_of_aws(name: str) -> None:
    said, ours = source("neuron_monitor"), daemon_of(name)
    assert (ours["image"], ours["command"], ours["args"]) == (said["image"], said["command"], said["arguments"])
    assert {each["name"]: each["value"] for each in ours["env"]} == said["environment"]
    assert ours["ports"][0]["containerPort"] == said["port"]
    assert (ours["securityContext"], ours["resources"]) == (said["security"], said["resources"])
    assert ours["pod"]["tolerations"] == [{"key": "aws.amazon.com/neuron", "operator": "Exists"}]
    affinity = ours["pod"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    types = affinity["nodeSelectorTerms"][1]["matchExpressions"][0]["values"]
    assert set(types) <= set(said["instance_types"])
    assert set(shipped(name).parameters["instance_type"].choices) <= set(types)


@pytest.mark.parametrize("name", sorted({*GPU, *NEURON}))
def test_a_prometheus_finds_the_pods_by_annotation_and_by_pod_monitor(name: str) -> None:
    said = source("prometheus_operator")
    daemon = object_of(name, "exporters", "DaemonSet", given={"exporters": True}, outputs={})
    monitor = object_of(name, "exporters", "PodMonitor", given={"exporters": True}, outputs={})
    template, (endpoint,) = daemon["spec"]["template"], monitor["spec"]["podMetricsEndpoints"]
    (port,) = template["spec"]["containers"][0]["ports"]
    assert template["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port["containerPort"]),
        "prometheus.io/path": "/metrics",
    }
    assert (monitor["apiVersion"], monitor["kind"]) == (said["api_version"], said["kind"])
    assert endpoint["port"] == port["name"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_a_prometheus_is_known_as_its_operator_and_its_chart_make_it() -> None:
    for said in (source("prometheus_operator")["pods"], source("prometheus_operator")["chart"]):
        assert said["label"] == dict([prometheus.SELECTOR])
        assert (said["container"] in prometheus.CONTAINERS, said["port"]) == (True, prometheus.PORT)


def test_the_sandbox_exports_only_counters_of_the_real_list() -> None:
    assert {name for name, _text, _value in GPU_METRICS} <= set(source("dcgm_exporter")["counters"]["names"])


@pytest.mark.parametrize("name", TRAINERS)
def test_tensorboard_reads_the_folder_that_the_trainer_writes(name: str) -> None:
    said = source("tensorboard_events")[name]
    given = {FOLDERS[name]: TRAINING[name][1]} if name in FOLDERS else {}
    outputs = {"image": {"image": "registry/x@sha256:0"}}
    board = object_of(name, "tensorboard", "Deployment", given={"tensorboard": True, **given}, outputs=outputs)
    (container,) = board["spec"]["template"]["spec"]["containers"]
    folder = next(word for word in container["args"] if word.startswith("--logdir=")).removeprefix("--logdir=")
    (mount,) = container["volumeMounts"]
    assert mount["readOnly"]
    assert folder.startswith(mount["mountPath"] + "/")
    if name not in TRAINING:
        assert said["folder"].startswith(folder)
        return
    job = yaml.safe_dump(object_of(name, "train", TRAINING[name][0], given=given, outputs=outputs), width=10_000)
    assert f"{said['folder']}={folder}" in job
    assert not set(said.get("setting", ())) & set(overrides_of(re.findall(r"\S+=\S*", job)))


def test_tensorboard_has_the_trainers_image() -> None:
    for name, kind, stage in (("bionemo-esm1nv", "PyTorchJob", "train"), ("nemo-gpt3-5b", "PyTorchJob", "train")):
        for given, outputs in (
            ({}, {"image": {"image": "registry/x@sha256:0"}}),
            ({"image_tag": "1.5"}, {}) if name == "bionemo-esm1nv" else ({}, {"image": {"image": "other/y:1"}}),
        ):
            job = object_of(name, stage, kind, given=given, outputs=outputs)
            board = object_of(name, "tensorboard", "Deployment", given={"tensorboard": True, **given}, outputs=outputs)
            (trains,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
            pod = board["spec"]["template"]["spec"]
            assert pod["containers"][0]["image"] == trains["image"]
            assert pod["imagePullSecrets"] == [{"name": "ngc-registry"}]
