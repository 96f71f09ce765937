"""Runs at one moment, folded from their records, and what their pods have printed: what the snapshots show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from actions.base.clock import format_rfc3339
from actions.base.files import write_private
from actions.base.untrusted import one_line
from actions.cluster.logs.lines import LogLine
from actions.run.journal.reader import RunSummary
from actions.run.output.streams import AcceleratorSample
from actions.run.output.writer import OutputWriter
from actions.run.paid import PaidThing, RunPaid
from actions.run.spending import Spending
from actions.run.state.fold import fold
from actions.run.state.records import (
    Action,
    Body,
    CheckResult,
    ClusterName,
    Created,
    Intent,
    JournalRecord,
    Operator,
    Outcome,
    Output,
    Owned,
    PlanOffer,
    RequestKind,
    Result,
    RunRequest,
    StageFinding,
    StageOutline,
)
from actions.run.state.view import Notice, NoticeKind, RunState, RunView, StageState
from actions.run.store.objects import LeaseDocument, RunAbout, RunStatus, StoreLease
from actions.run.store.remote import RemoteRun
from tests.support.builders import NOW
from tests.support.fixed_cluster import RUN, workers

CORPUS = Path(__file__).parents[1] / "fixtures" / "corpus"
_NOW = NOW.timestamp()
_HOUR = 3600.0
_DAY = 24 * _HOUR
_RUNNER = "runner"

PLAN = PlanOffer(
    plan_hash="hash-1",
    add=14,
    change=0,
    destroy=0,
    lines=(
        "+ aws_eks_cluster.this",
        '+ aws_eks_addon.this["vpc-cni"]',
        '+ aws_eks_addon.this["kube-proxy"]',
        '+ aws_eks_addon.this["coredns"]',
        '+ aws_eks_addon.this["aws-ebs-csi-driver"]',
        "+ aws_eks_node_group.core",
        "+ aws_iam_openid_connect_provider.oidc",
        "+ aws_iam_role.cluster",
        "+ aws_iam_role.node",
        '+ aws_iam_role_policy_attachment.cluster["AmazonEKSClusterPolicy"]',
        '+ aws_iam_role_policy_attachment.node["AmazonEKSWorkerNodePolicy"]',
        "+ aws_security_group.cluster",
        "+ aws_security_group_rule.node_to_cluster",
        "+ aws_sqs_queue.karpenter_interruption",
    ),
)
_STAGES = (
    # id, title, kind, seconds expected at least and at most, seconds it took
    ("network", "Network", "terraform", 180, 300, 214),
    ("provision", "Cluster", "terraform", 1_200, 1_800, 1_431),
    ("filesystem", "File system", "terraform", 600, 1_080, 702),
    ("kubeconfig", "Access", "kubeconfig", 1, 30, 2),
    ("volumes", "Volume", "storage", 1, 60, 4),
    ("pool", "GPU pool", "manifests", 1, 60, 3),
    ("operators", "Training operator", "manifests", 60, 120, 71),
    ("preflight", "Preflight", "check", 1, 120, 9),
    ("sample", "Sample", "job", 60, 600, 184),
    ("data", "UniRef50", "job", 180_000, 216_000, 201_340),
    ("train", "Pre-training", "job", 259_200, 345_600, 61_250),
)
_PREFLIGHT = (
    StageFinding(CheckResult.PASSED, "nodes", "2 of 2 are ready."),
    StageFinding(
        CheckResult.FAILED,
        "EFA device plugin",
        "is not installed: the job would use TCP between nodes.",
        "Install aws-efa-k8s-device-plugin, or go on if the job needs no EFA.",
    ),
    StageFinding(CheckResult.UNKNOWN, "quota", "L-DB2E81BA cannot be read: servicequotas:GetServiceQuota is denied."),
)
_OWNED = {
    "pool": (("NodePool", "g5-gpu-karpenter"), ("EC2NodeClass", "g5-gpu-karpenter")),
    "volumes": (("PersistentVolume", "fsx-static-pv"), ("PersistentVolumeClaim", "fsx-static-pvc")),
    "operators": (("Namespace", "kubeflow"), ("Deployment", "training-operator")),
    "train": (("PyTorchJob", "esm1nv-pretraining"), ("ConfigMap", "esm1nv-config")),
}


def _created() -> Created:
    names = [stage[0] for stage in _STAGES]
    return Created(
        run_id=RUN,
        blueprint_id="bionemo-esm1nv",
        title="BioNeMo ESM-1nv pre-training",
        preset="",
        parameters={},
        cluster=ClusterName(name="bionemo-on-eks", region="us-west-2"),
        stages=tuple(
            StageOutline(
                id=name,
                kind=kind,
                title=title,
                needs=tuple(names[place - 1 : place]) if place else (),
                expect_low_seconds=low,
                expect_high_seconds=high,
                holds_accelerators=name in ("pool", "train"),
                keeps_data=name == "filesystem",
                charts=("train_loss", "val_loss", "step_time_s") if name == "train" else (),
            )
            for place, (name, title, kind, low, high, _) in enumerate(_STAGES)
        ),
    )


class _Journal:
    """Records with their moments, the newest now."""

    def __init__(self) -> None:
        self._bodies: list[tuple[float, str, int, Body]] = [(0.0, "", 1, _created())]
        self._clock = 0.0

    def add(self, body: Body, *, after: float = 1, stage: str = "", attempt: int = 1) -> None:
        """Append a record, so many seconds after the one before."""
        self._clock += after
        self._bodies.append((self._clock, stage, attempt, body))

    def begin(self, stage: str, *, action: Action = Action.PERFORM, attempt: int = 1) -> None:
        self.add(Intent(action), stage=stage, attempt=attempt)

    def done_before(self, stage: str) -> None:
        """Carry every stage out that comes before `stage`."""
        for name, _, kind, _, _, took in _STAGES[: [one[0] for one in _STAGES].index(stage)]:
            self.begin(name)
            for object_kind, item in _OWNED.get(name, ()):
                self.add(Owned("v1", item, object_kind, "default", uid=f"uid-{item}"), after=0, stage=name)
            if name == "provision":
                self.add(Output({"cluster_endpoint": "https://4F2A77.gr7.us-west-2.eks.amazonaws.com"}), stage=name)
            plan = PLAN if kind == "terraform" else None
            found = _PREFLIGHT if name == "preflight" else ()
            self.add(Outcome(Action.PERFORM, Result.DONE, plan=plan, findings=found), after=took, stage=name)

    def view(self, *, ago: float = 0.0) -> RunView:
        """Fold them; the newest was written `ago` seconds ago."""
        begin = _NOW - ago - self._clock
        records = [
            JournalRecord(seq, begin + at, _RUNNER, stage, attempt, body)
            for seq, (at, stage, attempt, body) in enumerate(self._bodies, 1)
        ]
        return fold(records, holder=_RUNNER)


def _with_message(view: RunView, stage_id: str, message: str) -> RunView:
    """As the runner's newest note has it, which is no record."""
    stages = tuple(replace(one, message=message) if one.id == stage_id else one for one in view.stages)
    return replace(view, stages=stages)


def a_training_run() -> RunView:
    """The last stage trains."""
    journal = _Journal()
    journal.done_before("train")
    journal.begin("train")
    for kind, name in _OWNED["train"]:
        journal.add(Owned("v1", name, kind, "default", uid=f"uid-{name}"), after=0, stage="train")
    return _with_message(journal.view(ago=61_250), "train", "8 of 8 pods run.")


def a_crashing_run() -> RunView:
    """A worker of the training runs out of memory again and again."""
    view = _with_message(a_training_run(), "train", "7 of 8 pods ready. back-off 5m0s restarting failed container")
    trouble = "A GPU of worker-7 is out of memory, 7 restarts: CrashLoopBackOff, exit code 1"
    stages = tuple(replace(one, trouble=trouble) if one.id == "train" else one for one in view.stages)
    return replace(view, stages=stages, notices=(Notice(NoticeKind.PODS, f"Pre-training: {trouble}"),))


def a_failed_run() -> RunView:
    """The training has failed for the third time, and the disk is full."""
    journal = _Journal()
    journal.done_before("train")
    message = "PyTorchJob default/esm1nv-pretraining failed: BackoffLimitExceeded. Container pytorch ended with 1."
    for attempt in (1, 2, 3):
        journal.begin("train", attempt=attempt)
        outcome = Outcome(Action.PERFORM, Result.FAILED, message=message)
        journal.add(outcome, after=5_400, stage="train", attempt=attempt)
    text = "The disk is full: what runs goes on, no further stage begins."
    return replace(journal.view(ago=540), notices=(Notice(NoticeKind.DISK_FULL, text, _NOW - 300),))


def a_run_with_a_plan() -> RunView:
    """A plan of Terraform waits for its approval."""
    journal = _Journal()
    journal.done_before("provision")
    journal.begin("provision")
    journal.add(Outcome(Action.PERFORM, Result.AWAITING_APPROVAL, plan=PLAN), after=48, stage="provision")
    return journal.view(ago=95)


def a_stalled_run() -> RunView:
    """The runner exists and does not respond."""
    journal = _Journal()
    journal.done_before("data")
    journal.begin("data")
    notice = Notice(NoticeKind.STALLED, "Its runner, process 4242, does not respond.", _NOW - 95)
    view = replace(journal.view(ago=71_000), state=RunState.STALLED, notices=(notice,))
    return _with_message(view, "data", "1 of 1 pods run.")


def a_torn_down_run() -> RunView:
    """All steps of a teardown are done, and its audit has found something."""
    journal = _Journal()
    journal.done_before("train")
    journal.begin("train")
    journal.add(Outcome(Action.PERFORM, Result.DONE), after=300_000, stage="train")
    journal.add(RunRequest(RequestKind.TEARDOWN), after=7_200)
    steps = [
        step
        for step in journal.view().teardown
        if step.kind != Action.AUDIT and step.state is not StageState.SKIPPED  # kept for its data
    ]
    for step in steps:
        action, stage = (Action.DRAIN, "") if step.kind == Action.DRAIN else (Action.UNDO, step.id)
        journal.begin(stage, action=action)
        journal.add(Outcome(action, Result.DONE), after=95, stage=stage)
    journal.begin("", action=Action.AUDIT)
    found = Outcome(
        Action.AUDIT,
        Result.DONE,
        leftovers=(
            "AWS arn:aws:ec2:us-west-2:111122223333:security-group/sg-0a1b2c3d4e5f60718",
            "AWS arn:aws:ec2:us-west-2:111122223333:volume/vol-0f1e2d3c4b5a69788",
        ),
        retained=("PersistentVolume fsx-static-pv: kept with its data",),
        unknown=("This user may not list launch templates: ec2:DescribeLaunchTemplates is denied.",),
    )
    journal.add(found, after=31)
    return journal.view(ago=600)


def a_bandwidth_run() -> RunView:
    """A benchmark prints its table."""
    view = a_training_run()
    stage = replace(
        view.stages[-1], id="nccl", title="Bus bandwidth", charts=("busbw_gbs",), message="2 of 2 pods run."
    )
    return replace(view, id="efa-nccl-tests-1121-w5c2n7yhd6t4k", title="EFA and NCCL tests", stages=(stage,))


_PAID: dict[str, Any] = {
    "took": 1.0,
    "spending": Spending(Decimal("612.4"), {}, Decimal("11.72"), ("a NAT gateway",), is_simulated=False),
    "paid": (
        PaidThing("2 × g5.12xlarge", Decimal("11.344"), RUN, "train", instance_type="g5.12xlarge", nodes=2),
        PaidThing("core nodes", Decimal("0.384"), RUN, "provision", instance_type="m5.xlarge", nodes=2),
        PaidThing("file system", Decimal("1.117808"), RUN, "filesystem"),
    ),
    "loss": 1.175,
}


def summaries(folder: Path) -> tuple[RunSummary, ...]:
    """Runs in every state, newest first."""
    rows: list[tuple[str, str, RunState, str, float, dict[str, Any]]] = [
        (RUN, "bionemo-on-eks", RunState.RUNNING, "train", 75 * _HOUR, _PAID),
        ("efa-nccl-tests-1121-w5c2n7yhd6t4k", "nccl-bench", RunState.AWAITING_APPROVAL, "nodes", _HOUR, {}),
        ("llama2-trn1-mpi-1120-obyeqz7rm3xva", "trn1-llama", RunState.STALLED, "tokenise", _DAY, {}),
        ("nemo-gpt3-5b-1119-qd2ah5kcwp4tc", "nemo-gpt3", RunState.FAILED, "data", 2 * _DAY, {"took": 725.0}),
        ("llama2-trn1-ray-1118-5e5e7fn2ybq6s", "trn1-ray", RunState.TEARING_DOWN, "nodes", 3 * _DAY, {}),
        ("bionemo-esm1nv-1112-c4c4rjtx3ldvk", "bionemo-on-eks", RunState.PARKED, "", 9 * _DAY, {}),
        ("bionemo-esm1nv-1107-xkaamt5g6zhue", "bionemo-on-eks", RunState.TORN_DOWN, "", 14 * _DAY, {"leftovers": 2}),
        ("efa-nccl-tests-1101-e3zfbk7v4nwqs", "nccl-bench", RunState.TORN_DOWN, "", 20 * _DAY, {"unknown": 1}),
        ("nemo-gpt3-5b-1030-3badcpvy2fxrm", "", RunState.UNKNOWN, "", 0, {"error": "Its journal is damaged."}),
    ]
    return tuple(
        RunSummary(
            id=name,
            folder=folder / name,
            blueprint_id=name.rsplit("-", 2)[0],
            title=name,
            cluster=cluster,
            created_at=_NOW - ago if ago else 0.0,
            state=state,
            stage=stage,
            leftovers=more.get("leftovers", 0),
            is_interrupted=False,
            error=more.get("error", ""),
            number=len(rows) - place,
            unknown=more.get("unknown", 0),
            began_at=_NOW - ago if more.get("took") else None,
            ended_at=_NOW - ago + more["took"] if more.get("took") and state is RunState.FAILED else None,
            spending=more.get("spending"),
            paid=RunPaid(name, cluster, "us-west-2", state, more.get("paid", ()), holders=more.get("holders", ())),
            last_loss=more.get("loss"),
        )
        for place, (name, cluster, state, stage, ago, more) in enumerate(rows)
    )


def remote_runs() -> tuple[RemoteRun, ...]:
    """Runs of other machines in the cluster: at work, silent, over, of hostile text, unreadable; one taken over."""
    rows = (
        ("bionemo-esm1nv-1121-x5qd3ngjw7t2c", "grace", "bastion-2", RunState.RUNNING, "train", 26 * _HOUR, 12.0),
        ("efa-nccl-tests-1121-b2hmr4yk6pzta", "linus", "laptop-7.lab.example", RunState.RUNNING, "nodes", 3_900, 4_680),
        ("nemo-gpt3-5b-1118-k7wq5vtd2nxme", "grace", "bastion-2", RunState.PARKED, "", 3 * _DAY, 2 * _DAY),
        ("efa-nccl-tests-1121-w5c2n7yhd6t4k", "grace", "bastion-2", RunState.RUNNING, "nodes", _HOUR, 8.0),
        ("evil-1121-aaaaaaaaaaaaa", "[red]eve[/]\x1b[31m", "h\u202eost", RunState.FAILED, "[link=x]", _DAY, _DAY),
    )
    found = [
        a_remote_run(
            name,
            Operator(one_line(user), one_line(host)),
            state,
            stage,
            epoch=2 if name.endswith("t4k") else 1,
            created_at=_NOW - ago,
            seen_at=_NOW - silent,
        )
        for name, user, host, state, stage, ago, silent in rows
    ]
    return (*found, RemoteRun("odd", uid="uid-odd", namespace="eksml-tui", error="Its lease is of another form."))


def a_remote_run(
    name: str,
    owner: Operator,
    state: RunState,
    stage: str = "",
    *,
    epoch: int = 1,
    created_at: float = _NOW,
    seen_at: float = _NOW,
    tag: str = "1",
    store: str = "",
) -> RemoteRun:
    """A run of another machine, as its Lease in the cluster has it."""
    is_running = state is RunState.RUNNING
    status = RunStatus(
        state.value,
        stage,
        spent_usd="341.2204" if is_running else "88.5",
        usd_per_hour="13.08" if is_running else "0.10",
    )
    blueprint = name.rsplit("-", 2)[0]
    about = RunAbout(
        name, blueprint, blueprint, "bionemo-on-eks", "us-west-2", "111122223333", created_at=created_at, store=store
    )
    document = LeaseDocument(epoch, owner, f"{owner}/boot", format_rfc3339(NOW), 30.0, tag, status, about)
    return RemoteRun(name, StoreLease(document, tag, seen_at), namespace="eksml-tui", uid=f"uid-{name}")


def store_training(folder: Path) -> None:
    """Store the output of the eight workers: a training with a stretch without numbers, four minutes of each GPU."""
    for path, content in _training_output().items():
        file = folder / path
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, content, is_synced=False)


@cache
def _training_output() -> dict[str, bytes]:
    """Return the files of that output by their paths: a sample is a file written safely, and there are a hundred."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        writer = OutputWriter(folder, "train")
        for rank, pod in enumerate(workers()):
            source = writer.source(pod.namespace, pod.name, "pytorch", pod.uid, rank=rank)
            writer.write_lines(source, _training_lines() if rank == 0 else _other_lines(rank))
        for rank, pod in enumerate(workers()):
            for place, load in enumerate((3, 2, 34, 71, 98, 97, 99, 52, 98, 99, 97)):
                at = _NOW - 223 + 20 * place
                writer.write_sample(pod.name, AcceleratorSample(at, _gpu_row(rank, load), pod.node))
            writer.write_sample(pod.name, AcceleratorSample(_NOW - 3, _gpu_row(rank), pod.node))
        writer.close()
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def store_bandwidth(folder: Path) -> None:
    """The table of a benchmark."""
    store_text(folder, "nccl", "nccl-tests-launcher-7xk4d", (CORPUS / "nccl" / "two_nodes_all_reduce.txt").read_text())


def store_trainium(folder: Path) -> None:
    """One sample of a Trainium node."""
    store_text(folder, "train", TRAINIUM_POD, "Compiler status PASS\n")
    writer = OutputWriter(folder, "train")
    text = (CORPUS / "neuron" / "monitor_training.txt").read_text()
    writer.write_sample(TRAINIUM_POD, AcceleratorSample(_NOW - 3, text))
    writer.close()


TRAINIUM_POD = "llama2-7b-mpi-worker-0"


def store_text(folder: Path, stage: str, pod: str, text: str) -> None:
    """The output of one pod."""
    writer = OutputWriter(folder, stage)
    source = writer.source("default", pod, "main", f"uid-{pod}")
    writer.write_lines(source, _stamped(text.splitlines(), every=1.0))
    writer.close()


def _stamped(texts: Sequence[str], *, every: float, until: float = _NOW - 2, skew: float = 0.0) -> Iterator[LogLine]:
    """Lines so many seconds apart, the last one at `until`."""
    first = until - every * (len(texts) - 1) + skew
    for place, text in enumerate(texts):
        yield LogLine(round((first + every * place) * 1e3) * 1_000_000, text)


def _training_lines() -> Iterator[LogLine]:
    texts = [
        "\x1b[32m[NeMo I 2026-11-20 18:59:08 exp_manager:394]\x1b[0m Experiments are logged at /fsx/results/esm1nv"
    ]
    for place in range(1, 253):
        step = place * 50
        loss = 1.1 + 1.9 * math.exp(-step / 2_600) + 0.06 * math.sin(place * 2.4)
        printed = "nan" if 96 <= place < 110 else f"{loss:.3f}"
        done = step / 500_000
        elapsed, left = step * 4, (500_000 - step) * 4
        bar = "▏" if done < 0.02 else "▎"
        texts.append(
            f"Epoch 0:   {done * 100:.0f}%|{bar}         | {step}/500000 [{_hms(elapsed)}<{_hms(left)},  4.00s/it, "
            f"loss={printed}, v_num=, reduced_train_loss={printed}, global_step={step}.0, "
            f"consumed_samples={step * 512}.0, val_loss={loss + 0.09 - (place % 20) * 0.001:.3f}]"
        )
        if place % 60 == 0:
            texts.append(f"Validation DataLoader 0: 100%|██████████| {place // 60 * 5}/20 [00:41<00:00,  2.06s/it]")
    return _stamped(texts, every=200.0)


def _other_lines(rank: int) -> Iterator[LogLine]:
    texts = [
        f"NCCL INFO comm 0x55d0 rank {rank} nranks 8 cudaDev {rank % 4} busId {0x1B + rank:x}0 - Init COMPLETE",
        "\x1b[33m[NeMo W 2026-11-21 11:58:41 nemo_logging:349]\x1b[0m the grad norm is \x1b[1;31m12.5\x1b[0m: clipped",
        f"rank {rank}: 数据 shard {rank:03} read again from /fsx/uniref50/train_{rank:03}.csv",
    ]
    return _stamped(texts[: 3 if rank in (3, 5) else 1], every=400.0, skew=-rank * 0.25)


def _hms(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _gpu_row(rank: int, load: int = 0) -> str:
    """Return the row that `nvidia-smi --query-gpu` prints of the one GPU of a worker; rank 6 is starved, rank 2 hot."""
    usual, watts = (97, 148.6) if rank == 6 else (99 - rank % 3, 251.3 - 2.1 * rank)
    load = load or usual
    degrees = 86 if rank == 2 else 61 + rank
    return f"0, NVIDIA A10G, {load}, {20_480 + 37 * rank}, 23028, {degrees}, {watts:.2f}, 300.00, P0"
