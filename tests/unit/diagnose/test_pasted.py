"""`why --from` reads text as people have it: what kubectl prints for them, logs, mixed pastes.

`sandbox_*` was printed by kubectl 1.32 against the embedded cluster. `public_*` is of public threads, names changed:
kubernetes-sigs/aws-fsx-csi-driver 181, aws/karpenter-provider-aws 3989 and 7738, microsoft/pai 4589,
kubernetes/kubernetes 32522, NVIDIA/k8s-device-plugin 33, AliyunContainerService/gpushare-scheduler-extender 59,
kubeflow/trainer 1400 and 1856, volcano-sh/volcano 2986; `torchrun_killed` has the form of hpcaitech/ColossalAI 3514.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.cluster.diagnose.described import described_parts
from actions.cluster.diagnose.engine import diagnose, diagnose_each
from actions.cluster.diagnose.evidence import Evidence
from actions.cluster.diagnose.parse_input import parse_evidence
from actions.cluster.diagnose.pasted import read_paste
from tui.cli import main

_FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "diagnose" / "text"
TEXTS = sorted(path.stem for path in _FOLDER.glob("*.txt"))

CODES = {
    "before_kubectl_1_9": ["VOLUME_MOUNT"],
    "cut_at_the_top": ["OOM_KILLED"],
    "log_behind_a_prompt": ["GPU_OOM"],
    "public_fsx_csi_181": ["VOLUME_MOUNT"],
    "public_gpushare_59": ["GPU_SHORTAGE"],
    "public_k8s_device_plugin_33": ["GPU_SHORTAGE"],
    "public_karpenter_3989": ["NO_POD_IP"],
    "public_karpenter_7738_cut": ["NODE_NOT_JOINING"],
    "public_kubeflow_1400": ["REGISTRY_RATE_LIMIT"],
    "public_kubeflow_1856": ["CRASH_LOOP"],
    "public_kubernetes_32522": ["NODE_LOST"],
    "public_pai_4589": ["NODE_LOST"],
    "public_volcano_2986": ["GANG_WAITING"],
    "quoted_in_markdown": ["TAINT"],
    "torchrun_killed": ["KILLED_SIGKILL"],
    "sandbox_describe_job_once": ["JOB_FAILED"],
    "sandbox_describe_node": [],
    "sandbox_describe_nodeclaim": ["CAPACITY"],
    "sandbox_describe_pod_crash": ["CRASH_LOOP"],
    "sandbox_describe_pod_wants_64": ["GPU_SHORTAGE"],
    "sandbox_get_events_all": ["GPU_SHORTAGE", "CRASH_LOOP", "CRASH_LOOP", "JOB_FAILED"],
    "sandbox_get_events_wide": ["GPU_SHORTAGE", "CRASH_LOOP", "CRASH_LOOP", "JOB_FAILED"],
    "sandbox_get_pods_wide": ["CRASH_LOOP", "CRASH_LOOP", "JOB_FAILED"],
    "sandbox_kubectl_events": ["GPU_SHORTAGE", "CRASH_LOOP", "CRASH_LOOP", "JOB_FAILED"],
}


def text_of(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def evidence_in(text: str) -> Evidence:
    evidence, _ = parse_evidence(text.encode())
    return evidence


def codes_of(text: str) -> list[str]:
    evidence, is_one = parse_evidence(text.encode())
    return [str(one.code) for one in (diagnose(evidence) if is_one else diagnose_each(evidence))]


def test_every_text_has_its_codes() -> None:
    assert sorted(CODES) == TEXTS


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_diagnosed_like_the_json_that_it_was_printed_from(name: str) -> None:
    assert codes_of(text_of(name))[: len(CODES[name])] == CODES[name]
    assert bool(codes_of(text_of(name))) == bool(CODES[name])


@pytest.mark.parametrize("prefix", ["    ", "> ", "\t"], ids=["indented", "quoted", "behind tabs"])
@pytest.mark.parametrize("name", [name for name in TEXTS if name.startswith("sandbox_")])
def test_a_text_copied_out_of_a_document_is_the_same_text(name: str, prefix: str) -> None:
    copied = "".join(f"{prefix}{line}\n" for line in text_of(name).splitlines())
    assert codes_of(copied) == codes_of(text_of(name))
    assert codes_of(f"Here is what I see:\n\n```console\n{text_of(name)}```\n\nAny idea?\n") == codes_of(text_of(name))


def test_a_pod_has_what_its_description_shows() -> None:
    (pod,) = evidence_in(text_of("sandbox_describe_pod_crash")).pods
    (container,) = pod.containers
    assert (pod.name, pod.namespace, pod.phase) == ("crash", "default", "Running")
    assert pod.node == "ip-100-64-0-21.us-west-2.compute.internal"
    assert (container.name, container.restarts, container.is_ready) == ("main", 4, False)
    assert (container.state.kind, container.state.reason) == ("waiting", "CrashLoopBackOff")
    assert (container.last.kind, container.last.exit_code) == ("terminated", 3)
    assert [one.type for one in pod.conditions if one.status == "True"] == [
        "PodReadyToStartContainers", "Initialized", "PodScheduled",
    ]  # fmt: skip


def test_a_pod_asks_for_what_its_description_shows() -> None:
    (pod,) = evidence_in(text_of("sandbox_describe_pod_wants_64")).pods
    assert pod.requests == {"nvidia.com/gpu": 64}
    assert pod.is_unscheduled


def test_a_node_has_what_its_description_shows() -> None:
    first, *_ = evidence_in(text_of("sandbox_describe_node")).nodes
    assert first.instance_type == "m5.xlarge"
    assert first.is_ready
    assert first.allocatable["pods"] == "58"
    lost = next(node for node in evidence_in(text_of("public_pai_4589")).nodes if node.name == "p100")
    assert lost.taints == ("node.kubernetes.io/unreachable", "node.kubernetes.io/unreachable")


def test_an_object_of_any_kind_has_its_conditions() -> None:
    (claim,) = evidence_in(text_of("sandbox_describe_nodeclaim")).node_claims
    assert [(one.type, one.status, one.reason) for one in claim.conditions] == [
        ("Launched", "False", "LaunchFailed"),
        ("Ready", "Unknown", "AwaitingReconciliation"),
    ]
    assert claim.spec["requirements"][0]["values"] == ["p5.48xlarge"]
    text = (
        "Name:         mnist\nNamespace:    ml\nAPI Version:  kubeflow.org/v1\nKind:         PyTorchJob\nStatus:\n"
        "  Conditions:\n    Last Transition Time:  2026-01-01T00:00:00Z\n    Message:               it has failed\n"
        "    Reason:                PyTorchJobFailed\n    Status:                True\n    Type:   Failed\n"
    )
    (job,) = evidence_in(text).jobs
    assert (job.kind, job.name, job.has("Failed")) == ("PyTorchJob", "mnist", True)


@pytest.mark.parametrize("name", ["sandbox_get_events_all", "sandbox_get_events_wide", "sandbox_kubectl_events"])
def test_events_are_about_the_objects_that_their_table_names(name: str) -> None:
    events = evidence_in(text_of(name)).events
    refused = next(one for one in events if one.reason == "FailedScheduling")
    assert (refused.kind, refused.name, refused.type) == ("Pod", "wants-64", "Warning")
    assert refused.message.startswith("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    assert refused.message.endswith("Preemption is not helpful for scheduling.")
    ended = next(one for one in events if one.reason == "BackoffLimitExceeded")
    assert (ended.kind, ended.name) == ("Job", "once")


def test_a_message_over_several_lines_is_one_event() -> None:
    events = evidence_in(text_of("public_fsx_csi_181")).events
    assert events[-1].count == 9
    assert events[-1].message.endswith("Output: mount: wrong fs type, bad option, bad superblock on fsx")


def test_events_have_the_ages_that_their_table_shows() -> None:
    evidence = evidence_in(text_of("public_karpenter_3989"))
    assert {round(evidence.taken_at - one.last_seen_at) for one in evidence.events} == {0}


def test_a_command_names_the_pod_whose_log_follows() -> None:
    (log,) = evidence_in(text_of("log_behind_a_prompt")).logs
    assert log.pod == "trainer-0"
    assert log.text.splitlines()[0] == "step 10 loss 2.1"


def test_a_log_is_read_whatever_it_begins_with() -> None:
    trouble = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    for line in (trouble, f"[2024-11-05 10:00:00] [ERROR] {trouble}", json.dumps({"level": "error", "msg": trouble})):
        assert codes_of(f"{line}\n{line}\n") == ["GPU_OOM"]


def test_a_text_that_names_no_known_trouble_is_no_all_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(text_of("sandbox_describe_node"), encoding="utf-8")
    assert main(["why", "--from", str(path)]) == 1
    captured = capsys.readouterr()
    assert "Nothing is wrong" not in captured.out
    assert captured.out.startswith("Nothing in this text names a trouble that is known")
    assert captured.err == "eksml-tui: Read from the text: 1 Node.\n"
    assert main(["why", "--from", str(path), "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == []


def test_a_log_beside_several_pods_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "paste.txt"
    trouble = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    path.write_text(f"{text_of('sandbox_get_pods_wide')}\n{trouble}\n", encoding="utf-8")
    assert main(["why", "--from", str(path), "-o", "json"]) == 0
    assert [one["code"] for one in json.loads(capsys.readouterr().out)] == [
        "CRASH_LOOP", "CRASH_LOOP", "JOB_FAILED", "GPU_OOM",
    ]  # fmt: skip


def test_what_of_a_text_was_not_recognised_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(text_of("quoted_in_markdown"), encoding="utf-8")
    assert main(["why", "--from", str(path), "-o", "json"]) == 0
    wanted = "eksml-tui: Read from the text: 2 Pods, 1 event and 2 lines that may be a program's output.\n"
    assert capsys.readouterr().err == wanted


@given(st.text(alphabet=st.sampled_from("Name: EvtsCondi\n\t-`>$#{}[]0123456789kubectl/"), max_size=400))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    paste = read_paste(text, now=0.0)
    assert paste.summary is not None
    assert described_parts(text.splitlines()) is not None


@pytest.mark.parametrize("middle", ["Name: x\n" * 20_000, "a" * 200_000, "  " * 100_000 + "x", "Events:\n" * 20_000])
def test_a_hostile_text_takes_no_time(middle: str) -> None:
    assert read_paste(f"{text_of('sandbox_describe_pod_crash')}\n\n{middle}", now=0.0).documents


def test_blanks_without_end_take_no_time() -> None:
    blanks = " " * 100_000
    for line in (f"5m Warning Failed pod/x kubelet  {blanks}x", f"a:{blanks}x", f"  Warning  Failed  5m  {blanks}x"):
        assert read_paste(line, now=0.0).summary


def test_a_description_without_a_bottom_is_read_to_a_depth() -> None:
    nested = "".join(f"{' ' * at}a:\n" for at in range(1, 1500))
    text = f"Name: x\nNamespace: y\nAPI Version: v1\nKind: NodeClaim\nStatus:\n{nested}"
    assert [one["kind"] for one in read_paste(text, now=0.0).documents] == ["NodeClaim"]
