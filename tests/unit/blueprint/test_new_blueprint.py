"""A blueprint that is begun from a manifest: valid at once, and with its defaults it applies what the manifest has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from yaml import safe_load

from actions.base.errors import BlueprintError
from actions.blueprint.begin.job_manifests import without_server_fields
from actions.blueprint.begin.new_blueprint import SCRIPT, STAND_INS, NewBlueprint, begin_blueprint
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.model import Blueprint, ParameterType
from actions.blueprint.parameters import bind
from actions.blueprint.render import own_objects
from actions.blueprint.source_files import parse_manifests
from actions.blueprint.stages import JobStage, LoadTool, ManifestsStage, StageWatch
from actions.blueprint.targets import Manifest
from actions.cluster.kinds import JOBS, kind_of

JOBS_OF_OTHERS = sorted((Path(__file__).parents[2] / "fixtures" / "jobs").glob("*.yaml"))

RECORDINGS = sorted((Path(__file__).parents[2] / "fixtures" / "operators").glob("*/*.jsonl"))
SMALL = """\
# what it is
apiVersion: batch/v1
kind: Job
metadata: {name: small, namespace: team}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: example.test/train:1
          command: [torchrun, --nnodes, "2", train.py, --lr=3e-4, --epochs, "5", --amp=true, --tag=a%b, --fresh]
          env:
            - {name: PLAIN, value: x}
"""


def begun(text: str) -> NewBlueprint:
    return begin_blueprint("own", text.encode(), source="job.yaml")


def written(new: NewBlueprint, folder: Path) -> Blueprint:
    for name, data in new.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    assert [error.sentence() for error in validate(folder)] == []
    return load_blueprint(folder)


def applied(blueprint: Blueprint, **chosen: str | int) -> list[Manifest]:
    binding = bind(blueprint, chosen, existing_cluster=True)
    stages = [stage for stage in blueprint.stages if stage.id in ("volumes", "train")]
    return [item for stage in stages for item in own_objects(blueprint, stage, binding, {})]


def job_of(blueprint: Blueprint, **chosen: str | int) -> Manifest:
    return next(item for item in applied(blueprint, **chosen) if item["kind"] in {row.kind for row in JOBS})


@pytest.mark.parametrize("path", JOBS_OF_OTHERS, ids=lambda path: path.stem)
def test_a_strangers_job_is_valid_at_once_and_applied_as_it_is(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    new = begin_blueprint("own", data, source=str(path))
    own = [name for name in new.files if name.startswith("manifests/") and name != STAND_INS]
    assert [new.files[name] for name in own] == [data]
    blueprint = written(new, tmp_path / "own")
    assert applied(blueprint) == [document.value for document in parse_manifests(data, file="")]
    for parameter in blueprint.parameters.values():
        assert parameter.sets or parameter.group == "Cluster" or parameter.title == "Namespace"


def test_what_is_found_in_the_jobs_of_others(tmp_path: Path) -> None:
    found = {}
    for path in JOBS_OF_OTHERS:
        blueprint = written(begin_blueprint("own", path.read_bytes(), source=""), tmp_path / path.stem)
        found[path.stem] = blueprint
    imagenet = found["imagenet"]
    names = ["image", "workers", "accelerators", "instance_type", "namespace", "queue", "arch", "epochs"]
    assert [*imagenet.parameters][:8] == names
    assert imagenet.parameters["workers"].maximum == 36
    words = job_of(imagenet, workers=5, accelerators=4, epochs=7)["spec"]["pytorchReplicaSpecs"]["Worker"]
    command = words["template"]["spec"]["containers"][0]["command"][2]
    assert "--nproc_per_node=4 --nnodes=5 " in command
    assert "--epochs=7 " in command
    assert words["replicas"] == 5
    moved = applied(imagenet, namespace="other")
    assert {item["metadata"]["namespace"] for item in moved} == {"other"}
    assert imagenet.holdings["nodes"].instance_type == "${instance_type}"
    mpi = job_of(found["horovod"], workers=4)["spec"]["mpiReplicaSpecs"]
    assert mpi["Worker"]["replicas"] == 4
    assert mpi["Launcher"]["template"]["spec"]["containers"][0]["args"][1] == "4"
    ray = job_of(found["ray-mnist"], command="python other.py", workers=3)["spec"]
    assert ray["entrypoint"] == "python other.py"
    assert ray["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] == 3
    assert job_of(found["trainjob"], workers=9)["spec"]["trainer"]["numNodes"] == 9


@pytest.mark.parametrize(
    ("name", "watch"),
    [
        ("imagenet", ("training.kubeflow.org/job-name=imagenet-gpu-team-a-1", "", LoadTool.NVIDIA_SMI)),
        (
            "horovod",
            (
                "training.kubeflow.org/job-name=tensorflow-mnist,training.kubeflow.org/job-role=launcher",
                "",
                LoadTool.NONE,
            ),
        ),
        ("ray-mnist", ("batch.kubernetes.io/job-name=rayjob-pytorch-mnist", "", LoadTool.NONE)),
        ("trainjob", ("jobset.sigs.k8s.io/jobset-name=multi-node-example", "", LoadTool.NONE)),
    ],
)
def test_logs_and_accelerators_are_followed_as_the_kind_labels_its_pods(
    name: str, watch: tuple[str, str, LoadTool], tmp_path: Path
) -> None:
    path = next(path for path in JOBS_OF_OTHERS if path.stem == name)
    found = written(begin_blueprint("own", path.read_bytes(), source=""), tmp_path / "own").stage("train").watch
    assert isinstance(found, StageWatch)
    assert found.logs is not None
    assert (found.logs.pods, found.logs.container, found.accelerator) == watch


def test_arguments_keep_their_form_and_types(tmp_path: Path) -> None:
    blueprint = written(begun(SMALL), tmp_path / "own")
    types = {name: (one.type, one.default) for name, one in blueprint.parameters.items() if one.group == "Arguments"}
    assert types == {
        "lr": (ParameterType.TEXT, "3e-4"),  # a number would be written as 0.0003
        "epochs": (ParameterType.INTEGER, 5),
        "amp": (ParameterType.BOOLEAN, True),
        "tag": (ParameterType.TEXT, "a%b"),
    }
    words = job_of(blueprint, workers=3, epochs=9, tag="c", amp="false")["spec"]["template"]["spec"]["containers"][0]
    expected = "torchrun --nnodes 3 train.py --lr=3e-4 --epochs 9 --amp=false --tag=c --fresh"
    assert words["command"] == expected.split()


def test_arguments_that_restate_numbers_follow_them_and_others_are_kept(tmp_path: Path) -> None:
    command = "[accelerate, launch, --num_machines, '2', --num_processes, '8', train.py, -n, '100', --nodes=7]"
    text = re.sub(r"command: .*", f"command: {command}\n          resources: {{limits: {{nvidia.com/gpu: 4}}}}", SMALL)
    blueprint = written(begun(text), tmp_path / "own")
    assert [name for name, one in blueprint.parameters.items() if one.group == "Arguments"] == ["n", "nodes"]
    words = job_of(blueprint, workers=3, accelerators=2, n=5)["spec"]["template"]["spec"]["containers"][0]["command"]
    assert words == [
        "accelerate",
        "launch",
        "--num_machines",
        "3",
        "--num_processes",
        "6",
        "train.py",
        "-n",
        "5",
        "--nodes=7",
    ]


def test_a_secret_is_replaced_by_a_reference_and_nowhere_copied(tmp_path: Path) -> None:
    token = "hf_" + "a1b2c3d4" * 4
    with_secrets = f"""\
{{name: PLAIN, value: x}}
            - name: HF_TOKEN  # mine
              value: {token}
            - {{name: API_KEY, value: 'sesame'}}"""
    new = begun(SMALL.replace("{name: PLAIN, value: x}", with_secrets))
    assert not any(token.encode() in data or b"sesame" in data for data in new.files.values())
    (container,) = safe_load(new.files["manifests/small.yaml"])["spec"]["template"]["spec"]["containers"]
    reference = {"secretKeyRef": {"name": "own-hf-token", "key": "HF_TOKEN", "optional": True}}
    assert container["env"][:2] == [{"name": "PLAIN", "value": "x"}, {"name": "HF_TOKEN", "valueFrom": reference}]
    blueprint = written(new, tmp_path / "own")
    assert blueprint.parameters["hf_token"].default == "env:HF_TOKEN"
    assert set(blueprint.stage("train").secrets) == {"own-hf-token", "own-api-key"}
    assert blueprint.presets["rehearsal"].set == {"hf_token": "", "api_key": "", "namespace": "default"}
    assert any("HF_TOKEN is not copied" in remark for remark in new.remarks)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "image: example.test/train:1",
            "image: $IMAGE",
            "it is a template, without a value yet for $IMAGE. Export them, and run: envsubst"
            " '$IMAGE' < FILE | eksml-tui blueprints new ID --from -",
        ),
        ("image: example.test/train:1", "image: <account>.dkr", "for <account>. Write the values into it."),
        ("image: example.test/train:1", "image:", "for spec.template.spec.containers[0].image. Write the values"),
        ("{name: PLAIN, value: x}", "{name: PLAIN, value: '${PLAIN}'}", "for ${PLAIN}. Export them"),
        ("namespace: team", "namespace: $TEAM, annotations: {run: $RUN $TEAM}", "no shell is to fill in: $RUN)"),
        ("image: example.test/train:1", "image: {{ .Values.image }}", "a key must be a text. Render it first: helm"),
        ("# what it is", "kind: Kustomization\n---", "needs apiVersion. Build it first: kustomize build FOLDER"),
        ("namespace: team", "namespace: kube-system", "'kube-system' is a namespace of Kubernetes itself. Name"),
        ("name: small", "name: Small", "job.yaml:4:12: 'Small' is not a valid object name."),
        (
            "env:",
            "resources: {limits: {memory: 5GB}}\n          env:",
            "job.yaml:15:32: '5GB' is not an amount. Write it as 4, 500m or 16Gi.",
        ),
        ("parallelism: 2", "parallelism: many", "spec.parallelism is 'many', which is not a number."),
        ("parallelism: 2", "parallelism: true", "spec.parallelism is 'True', which is not a number."),
        ("kind: Job", "kind: Service", "there is no job in it, only Service. It takes one of Job, PyTorchJob"),
        ("--tag=a%b", f"--token=hf_{'a1' * 12}", "holds a secret, which no blueprint may."),
        ("# what it is", SMALL + "---", "it has 2 jobs: Job small, Job small. Give each a file, and a blueprint."),
        ("  template:\n    spec:", "  template:\n    spec: x\n    rest:", "the Job small has no pods with containers"),
        ("      containers:", "      initContainers:", "the Job small has no pods with containers of its own."),
    ],
)
def test_what_cannot_be_begun_from_is_refused_with_the_way_out(old: str, new: str, words: str) -> None:
    assert old in SMALL
    with pytest.raises(BlueprintError) as caught:
        begun(SMALL.replace(old, new, 1))
    assert words in caught.value.sentence()
    assert caught.value.sentence().startswith("job.yaml")


def test_a_name_of_the_server_does_not_hide_what_is_not_utf_8() -> None:
    data = SMALL.replace("{name: small", "{generateName: small-").encode() + b"# \xff\n"
    with pytest.raises(BlueprintError, match="UTF-8"):
        begin_blueprint("own", data, source="job.yaml")


def test_data_is_kept_and_what_is_missing_is_looked_for(tmp_path: Path) -> None:
    claim = "\n---\n# mine\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {}\n"
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {a: b}\n"
    mounts = """\
          envFrom:
            [{configMapRef: {name: settings}}, {secretRef: {name: login}}, {secretRef: {name: other, optional: true}}]
      volumes:
        - {name: data, persistentVolumeClaim: {claimName: data}}
        - {name: old, persistentVolumeClaim: {claimName: old}}
      serviceAccountName: trainer
"""
    new = begun(SMALL + mounts + claim + secret)
    named = ["ConfigMap settings", "Secret login", "PersistentVolumeClaim old", "ServiceAccount trainer"]
    assert f"Has to be there, as preflight checks: {', '.join(named)}." in new.remarks
    assert new.files["manifests/volumes.yaml"].decode() == claim.removeprefix("\n")
    assert b"{a: b}" not in b"".join(new.files.values())
    stand_ins = [document.value for document in parse_manifests(new.files[STAND_INS], file="")]
    assert [f"{one['kind']} {one['metadata']['name']}" for one in stand_ins] == [
        "PersistentVolume stand-in-data",
        "PersistentVolume stand-in-old",
        *named,
    ]
    assert "The Secret login is not copied." in new.remarks
    blueprint = written(new, tmp_path / "own")
    volumes = blueprint.stage("volumes")
    assert isinstance(volumes, ManifestsStage)
    assert volumes.keeps_data
    assert [stage.id for stage in blueprint.stages] == ["kubeconfig", "stand-ins", "preflight", "volumes", "train"]
    assert blueprint.presets["rehearsal"].set["stand_ins"] is True
    assert {"confirm": "bionemo-on-eks", "delete_data": True} in safe_load(new.files[SCRIPT])["always"][0].values()


def test_a_claim_that_a_job_brings_gets_a_volume_in_its_rehearsal(tmp_path: Path) -> None:
    spec = "{storageClassName: gp3, accessModes: [ReadWriteMany], resources: {requests: {storage: 9Gi}}}"
    claim = f"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec: {spec}\n"
    new = begun(f"{SMALL}{claim}")
    (volume,) = [document.value for document in parse_manifests(new.files[STAND_INS], file="")]
    assert volume["spec"] == {
        "storageClassName": "gp3", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "9Gi"},
        "hostPath": {"path": "/mnt/stand-in"},
    }  # fmt: skip
    assert [stage.id for stage in written(new, tmp_path / "own").stages] == [
        "kubeconfig",
        "stand-ins",
        "volumes",
        "train",
    ]
    own = claim.replace("Claim\n", "\n").replace("data}", "mine}")
    assert STAND_INS not in begun(f"{SMALL}{claim}{own}").files


def test_an_object_of_the_cluster_is_written_as_a_person_would(tmp_path: Path) -> None:
    live: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "small", "namespace": "team", "uid": "1", "resourceVersion": "2", "managedFields": [{}],
            "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1, "labels": {"team": "a", "eksml.dev/run": "r"},
            "ownerReferences": [{}], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {
            "parallelism": 2, "suspend": False, "completionMode": "NonIndexed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}},
            "template": {
                "metadata": {"labels": {"batch.kubernetes.io/job-name": "small", "job-name": "small"}},
                "spec": {
                    "containers": [{"name": "a", "image": "a:1", "resources": {}, "terminationMessagePolicy": "File"}],
                    "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
                    "restartPolicy": "Never",
                },
            },
        },
        "status": {"active": 2},
    }  # fmt: skip
    assert without_server_fields(live) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "small", "namespace": "team", "labels": {"team": "a"}},
        "spec": {
            "parallelism": 2,
            "template": {"spec": {"containers": [{"name": "a", "image": "a:1"}], "restartPolicy": "Never"}},
        },
    }


def test_a_file_that_kubectl_get_has_written_is_begun_from_without_what_servers_add(tmp_path: Path) -> None:
    (live,) = [document.value for document in parse_manifests(SMALL.encode(), file="")]
    live["metadata"] |= {"uid": "1", "generateName": "smaller-"}
    expected = written(begun(SMALL), tmp_path / "own").parameters
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [live | {"status": {"active": 1}}]})
    for number, text in enumerate((json.dumps(live), listed)):
        blueprint = written(begun(text), tmp_path / f"own{number}")
        assert blueprint.parameters == expected
        assert job_of(blueprint)["metadata"] == {"name": "small", "namespace": "team"}


def test_anchors_stay_as_they_are(tmp_path: Path) -> None:
    text = SMALL.replace("env:", "env: &env")
    text += "      initContainers: [{name: first, image: example.test/first:1, env: *env}]\n"
    new = begun(text)
    assert new.files["manifests/small.yaml"] == text.encode()
    job = job_of(written(new, tmp_path / "own"))["spec"]["template"]["spec"]
    assert job["initContainers"][0]["env"] == job["containers"][0]["env"] == [{"name": "PLAIN", "value": "x"}]


def test_a_secret_that_was_to_be_filled_in_is_a_parameter(tmp_path: Path) -> None:
    new = begun(SMALL.replace("{name: PLAIN, value: x}", "{name: HF_TOKEN, value: '${HF_TOKEN}'}"))
    assert written(new, tmp_path / "own").parameters["hf_token"].default == "env:HF_TOKEN"


def test_the_mode_of_a_file_is_a_number(tmp_path: Path) -> None:
    volume = "{name: x, configMap: {name: settings, defaultMode: 0755, items: [{key: a, path: a, mode: 0400}]}}"
    blueprint = written(begun(f"{SMALL}      volumes: [{volume}]\n"), tmp_path / "own")
    (found,) = job_of(blueprint)["spec"]["template"]["spec"]["volumes"]
    assert found["configMap"]["defaultMode"] == 0o755
    assert found["configMap"]["items"][0]["mode"] == 0o400


def test_what_does_not_end_is_waited_for_instead(tmp_path: Path) -> None:
    text = (
        SMALL.replace("batch/v1", "apps/v1").replace("kind: Job", "kind: Deployment").replace("  completions: 2\n", "")
    )
    text = text.replace("parallelism: 2", "replicas: 2\n  selector: {matchLabels: {app: small}}")
    stage = written(begun(text), tmp_path / "own").stage("train")
    assert not isinstance(stage, JobStage)
    assert isinstance(stage, ManifestsStage)
    assert [one.kind for one in stage.ready] == ["Deployment"]
    assert stage.watch is not None
    assert stage.watch.logs is not None
    assert stage.watch.logs.pods == "app=small"


def test_a_rehearsal_needs_no_queue_and_no_name_of_the_server(tmp_path: Path) -> None:
    queued = SMALL.replace("{name: small, ", "{generateName: small-, labels: {kueue.x-k8s.io/queue-name: mine}, ")
    blueprint = written(begun(queued.replace("  parallelism", "  suspend: true\n  parallelism")), tmp_path / "own")
    chosen = blueprint.presets["rehearsal"].set
    assert (chosen["queue"], chosen["suspend"]) == ("", False)
    job = job_of(blueprint, **{name: value for name, value in chosen.items() if isinstance(value, str | int)})
    assert (job["metadata"]["name"], job["spec"]["suspend"]) == ("small", False)
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": ""}
    assert job_of(blueprint)["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "mine"}


@pytest.mark.parametrize(
    ("requests", "more", "nodes"),
    [
        ("{cpu: 500m}", "", ""),
        ("{cpu: 30}", "", "m6i.8xlarge=2"),
        ("{nvidia.com/gpu: 1}", "", "g6e.xlarge=2"),
        ("{nvidia.com/gpu: 4}", "", "g6e.12xlarge=2"),
        ("{nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32}", "", "p5.48xlarge=2"),
        ("{aws.amazon.com/neuron: 16}", "", "trn1.32xlarge=2"),
        ("{nvidia.com/gpu: 4}", "nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}", "p5.48xlarge=1"),
        ("{nvidia.com/gpu: 1}", "nodeSelector: {karpenter.k8s.aws/instance-gpu-name: t4}", "g4dn.xlarge=2"),
        ("{cpu: 1}", "nodeSelector: {node.kubernetes.io/instance-type: ml.g5.8xlarge}", "ml.g5.8xlarge=1"),
        ("{cpu: 1}", "nodeSelector: {sagemaker.amazonaws.com/node-health-status: Schedulable}", "ml.c5.large=2"),
    ],
)
def test_the_nodes_of_a_rehearsal_are_the_smallest_of_today_that_the_pods_fit_on(
    requests: str, more: str, nodes: str
) -> None:
    new = begun(SMALL + f"          resources: {{requests: {requests}, limits: {requests}}}\n      {more}\n")
    assert safe_load(new.files[SCRIPT]).get("nodes", "") == nodes


def test_pods_that_no_node_of_the_embedded_cluster_takes_are_named() -> None:
    for more, why in (
        ("resources: {limits: {google.com/tpu: 4}}", "Insufficient google.com/tpu"),
        ("resources: {limits: {nvidia.com/gpu: 8, ephemeral-storage: 800Gi}}", "Insufficient ephemeral-storage"),
        ("resources: {limits: {nvidia.com/gpu: 8, aws.amazon.com/neuron: 1}}", "no type has all of it"),
        ("resources: {}\n      nodeSelector: {pool: a}", "node(s) didn't match Pod's node affinity/selector"),
    ):
        new = begun(f"{SMALL}          {more}\n")
        assert f"The embedded cluster has no node for the pods of job: {why}." in new.remarks


@pytest.mark.parametrize("more", ["    resources: [1]", "nodeSelector: [1]"])
def test_what_has_another_form_is_left_to_the_cluster(more: str, tmp_path: Path) -> None:
    new = begun(f"{SMALL}      {more}\n")
    assert "What its pods request cannot be read: a field has another form." in new.remarks
    written(new, tmp_path / "own")


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_pods_have_the_label_that_their_operator_was_seen_to_set(recording: Path) -> None:
    lines = [json.loads(line) for line in recording.read_text("utf-8").splitlines()]
    pods = [line for line in lines if (line["type"], line.get("kind")) == ("ADDED", "Pod")]
    owned = [(pod["labels"], owner) for pod in pods for owner in pod.get("owners") or ()]
    rows = [(kind_of(owner["kind"]), labels, owner["name"]) for labels, owner in owned if owner["kind"] != "ReplicaSet"]
    assert rows or recording.stem == "suspend-from-start"
    for row, labels, name in rows:
        assert labels[row.labels_pods] == name
