"""Rendering: values in place, labels on objects and pods, secrets only where they belong."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import BlueprintError, MissingError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.operators import operator_manifests
from actions.blueprint.parameters import bind
from actions.blueprint.render import labels_of, own_objects, secrets_of, stage_manifests, tfvars_of
from actions.blueprint.stages import ManifestsStage, Source, TerraformStage
from tests.unit.blueprint.builders import a_blueprint

OUTPUTS = {
    "network": {"vpc_id": "vpc-1", "vpc_cidr": "10.0.0.0/16", "private_subnet_ids": "a,b", "storage_subnet_id": "a"},
    "filesystem": {"fsx_id": "fs-1", "fsx_dns_name": "fs-1.example.test", "fsx_mount_name": "m"},
}


def rendered(stage: str, given: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    binding = bind(blueprint, given or {}, preset="rehearsal")
    return stage_manifests(blueprint, stage, binding, run_id="run-1", outputs=OUTPUTS)


def test_every_form_of_target_is_rendered(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_blueprint(tmp_path / "b"))
    (job,) = stage_manifests(
        blueprint, "work", bind(blueprint, {"workers": 4}), run_id="r", outputs={"provision": {"answer": "42"}}
    )
    container = job["spec"]["template"]["spec"]["containers"][0]

    assert job["spec"]["parallelism"] == 4
    assert job["metadata"]["annotations"] == {"example.test/a": "42"}
    assert container["args"] == ["run", "--workers=4", "range='x_003'"]
    assert container["env"] == [{"name": "WORKERS", "value": "4"}]


def test_a_stage_sets_variables_of_its_containers_over_those_that_they_have(tmp_path: Path) -> None:
    given = "manifests: [manifests/job.yaml]\n    environment: {WORKERS: '${workers} of ${gpus}', EXTRA: x}"
    blueprint = load_blueprint(a_blueprint(tmp_path / "b", ("manifests: [manifests/job.yaml]", given)))
    (job,) = own_objects(blueprint, blueprint.stage("work"), bind(blueprint, {}), {"provision": {"answer": "42"}})
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "WORKERS", "value": "2 of 4"}, {"name": "EXTRA", "value": "x"}]


def test_objects_and_pod_templates_carry_the_run() -> None:
    for stage in ("data", "train", "operators", "volumes"):
        for manifest in rendered(stage):
            assert manifest["metadata"]["labels"].items() >= labels_of("run-1", stage).items()
    _, job = rendered("train")
    template = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    assert template["metadata"]["labels"] == labels_of("run-1", "train")
    assert template["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}


def test_only_namespaced_objects_get_a_namespace() -> None:
    namespaces = {
        manifest["kind"]: manifest["metadata"].get("namespace", "")
        for stage in ("volumes", "pool", "operators", "train")
        for manifest in rendered(stage)
    }
    assert namespaces["PersistentVolume"] == namespaces["NodePool"] == namespaces["CustomResourceDefinition"] == ""
    assert namespaces["PersistentVolumeClaim"] == namespaces["PyTorchJob"] == "default"
    assert namespaces["Deployment"] == "kubeflow"


def test_the_group_has_a_fixed_size_and_the_same_processes_everywhere() -> None:
    _, job = rendered("train", {"workers": 2, "gpus_per_worker": 4})
    spec = job["spec"]
    container = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]

    assert spec["elasticPolicy"]["minReplicas"] == spec["elasticPolicy"]["maxReplicas"] == 2
    assert spec["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2
    assert "metrics" not in spec["elasticPolicy"]
    assert spec["nprocPerNode"] == "4"
    assert "--nproc_per_node=4" in container["command"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"


def test_the_training_reads_as_many_files_as_the_data_job_writes() -> None:
    (data,) = rendered("data", {"num_csv_files": 12})
    _, train = rendered("train", {"num_csv_files": 12})
    command = train["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]

    assert {"name": "NUM_CSV_FILES", "value": "12"} in data["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "model.data.dataset.train='x_OP_000..011_CL_'" in command


def test_a_missing_output_names_the_stage_to_run() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    with pytest.raises(BlueprintError, match=r"filesystem\.fsx_id, which has not been reported"):
        stage_manifests(blueprint, "volumes", bind(blueprint, {}), run_id="r", outputs={})


def test_variables_are_those_that_the_root_declares() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    for preset in ("", "rehearsal"):
        variables = tfvars_of(
            blueprint, "filesystem", bind(blueprint, {}, preset=preset), run_id="run-1", outputs=OUTPUTS
        )
        assert variables == {
            "run_id": "run-1",
            "cluster_name": "bionemo-on-eks",
            "region": "us-west-2",
            "capacity_gib": 2400,
            "throughput_mbps_per_tib": 500,
            "has_data_repository": False,
            "vpc_id": "vpc-1",
            "vpc_cidr": "10.0.0.0/16",
            "subnet_id": "a",
        } | ({} if preset else {"kms_key_arn": ""})


def test_node_classes_are_tagged_with_the_run() -> None:
    node_class = next(manifest for manifest in rendered("pool") if manifest["kind"] == "EC2NodeClass")
    assert node_class["spec"]["tags"] == {"eksml-run": "run-1"}


def test_secrets_are_made_only_from_given_references() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    asked: list[str] = []

    def resolve(reference: str) -> str:
        asked.append(reference)
        return "the-key"

    assert secrets_of(blueprint, "train", bind(blueprint, {}), run_id="r", resolve=resolve) == []
    binding = bind(blueprint, {"ngc_api_key": "env:NGC", "wandb_api_key": "file:/k"})
    registry, wandb = secrets_of(blueprint, "train", binding, run_id="r", resolve=resolve)
    login = json.loads(base64.b64decode(registry["data"][".dockerconfigjson"]))["auths"]["nvcr.io"]

    assert asked == ["env:NGC", "file:/k"]
    assert (registry["type"], login["username"], login["password"]) == (
        "kubernetes.io/dockerconfigjson",
        "$oauthtoken",
        "the-key",
    )
    assert base64.b64decode(wandb["data"]["api-key"]) == b"the-key"
    assert "the-key" not in json.dumps(stage_manifests(blueprint, "train", binding, run_id="r", outputs=OUTPUTS))


def a_mirror(folder: Path, *, digest: str = "") -> Path:
    manifest = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: kubeflow}\n"
    place = folder / "training-operator" / "1.8.1"
    place.mkdir(parents=True)
    (place / "manifest.yaml").write_bytes(manifest)
    (place / "manifest.yaml.sha256").write_text(f"{digest or hashlib.sha256(manifest).hexdigest()}  manifest.yaml\n")
    return folder


def test_an_operator_comes_from_the_first_mirror_that_has_it(tmp_path: Path) -> None:
    source = Source(name="training-operator", version="1.8.1", url="", sha256="")
    found = operator_manifests(source, [tmp_path / "empty", a_mirror(tmp_path / "mine")], shipped="mirror")
    assert [item["kind"] for item in found] == ["Namespace"]


def test_a_mirror_whose_bytes_changed_is_refused(tmp_path: Path) -> None:
    source = Source(name="training-operator", version="1.8.1", url="", sha256="")
    with pytest.raises(BlueprintError, match="not what was recorded"):
        operator_manifests(source, [a_mirror(tmp_path, digest="0" * 64)])


def test_an_operator_in_no_mirror_says_where_to_put_it(tmp_path: Path) -> None:
    source = Source(name="training-operator", version="9.9.9", url="", sha256="")
    with pytest.raises(MissingError, match="not in any mirror") as caught:
        operator_manifests(source, [tmp_path])
    assert str(tmp_path / "training-operator" / "9.9.9") in caught.value.hint


def test_the_operators_stage_of_the_rehearsal_is_served_by_the_shipped_mirror() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    stage = blueprint.stage("operators")
    assert isinstance(stage, ManifestsStage)
    kinds = {f"{manifest['kind']}/{manifest['metadata']['name']}" for manifest in rendered("operators")}
    assert {f"{item.kind}/{item.name}" for item in stage.ready} <= kinds


ACCOUNT_ROOT = (
    'variable "account_id" {\n  type    = string\n  default = ""\n}\n'
    'variable "token_program" { default = "python" }\nvariable "answer" { default = "" }\n'
)


def test_circumstances_fill_what_a_root_leaves_empty_and_nothing_else(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path / "b")
    blueprint = load_blueprint(folder)
    stage = next(stage for stage in blueprint.stages if isinstance(stage, TerraformStage))
    (folder / stage.root / "more.tf").write_text(ACCOUNT_ROOT)
    variables = tfvars_of(
        blueprint,
        stage.id,
        bind(blueprint, {}),
        run_id="r",
        outputs={},
        circumstances={"account_id": "111122223333", "token_program": "/python", "undeclared": "x"},
    )
    assert variables.get("account_id") == "111122223333"
    assert "token_program" not in variables  # the root has a value of its own
    assert "undeclared" not in variables
