"""Logs of programs that really ended so, on two H100 and on one H200: each has its true cause first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.diagnose.samples import a_container, a_pod, codes, is_quoted, why
from tests.unit.diagnose.troubles import ended

FIXTURES = Path(__file__).parents[2] / "fixtures"


def log_of(name: str, machine: str = "h100x2") -> str:
    return (FIXTURES / machine / f"log_{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("oom", "GPU_OOM", "asked 8.00 GiB, free 5.00 GiB, total 79.18 GiB"),
        ("hang", "NCCL_TIMEOUT", "(number 55) did not end for 15 seconds"),
        ("kill", "KILLED_SIGKILL", "rank 1 was killed (SIGKILL)"),
        ("segv", "JOB_FAILED", "rank 1 crashed in native code (SIGSEGV)"),
        ("full", "NODE_DISK_FULL", "A checkpoint could not be written whole"),
        ("ifname", "NCCL_NO_INTERFACE", "NCCL_SOCKET_IFNAME names none that the pod has"),
        ("toomany", "GPU_RUNTIME", "More ranks are started"),
        ("assert", "GPU_APP_FAULT", "An assertion of a GPU kernel failed"),
        ("mismatch", "JOB_FAILED", "Detected mismatch between collectives on ranks"),
        ("unused", "JOB_FAILED", "parameters that were not used in producing loss"),
    ],
)
def test_the_true_cause_comes_first(name: str, code: str, words: str) -> None:
    document = ended(log_of(name))
    first, *others = why(document)
    assert first.code.value == code
    assert words in first.headline
    assert first.evidence
    assert all(is_quoted(quote, document) for quote in first.evidence)
    assert not [one for one in others if one.severity is first.severity]


def test_ranks_of_one_machine_need_no_network() -> None:
    """NCCL sets up sockets there too; its ranks exchange everything over NVLink."""
    log = log_of("one_node_nccl_info")
    assert codes({"logs": log}) == []
    assert codes({"logs": log.replace("nNodes 1", "nNodes 2")}) == ["EFA_NOT_USED"]


ON_ONE_GPU = {
    "anomaly": ("LOSS_DIVERGED", "its loss or gradients are no numbers any more"),
    "checkpoint_cut": ("CHECKPOINT_DAMAGED", "damaged or was not written whole"),
    "checkpoint_empty": ("CHECKPOINT_DAMAGED", "damaged or was not written whole"),
    "checkpoint_keys": ("JOB_FAILED", "Unexpected key(s) in state_dict"),
    "checkpoint_pickle": ("JOB_FAILED", "Weights only load failed"),
    "compiler": ("JOB_FAILED", "No such file or directory: '/nonexistent/gcc'"),
    "cpu_memory_error": ("JOB_FAILED", "MemoryError"),
    "cublas_alloc": ("GPU_OOM", "A GPU is out of memory"),
    "cupy_memory": ("GPU_OOM", "A GPU is out of memory"),
    "duplicate_gpu": ("NCCL_DUPLICATE_GPU", "Ranks 0 and 1 use the same GPU"),
    "embedding": ("GPU_APP_FAULT", "An assertion of a GPU kernel failed"),
    "gloo_monitored": ("JOB_FAILED", "Rank 1 failed to pass monitoredBarrier in 5000 ms"),
    "gloo_peer": ("JOB_FAILED", "rank 1 ended with exit code 3 and printed no error"),
    "hf_resume": ("JOB_FAILED", "No valid checkpoint found in output directory"),
    "hub_no_network": ("JOB_FAILED", "We couldn't connect to 'https://huggingface.co'"),
    "hub_offline": ("JOB_FAILED", "We couldn't connect to 'https://huggingface.co'"),
    "illegal_access": ("GPU_APP_FAULT", "A GPU kernel of the program made an illegal access"),
    "index_assert": ("GPU_APP_FAULT", "An assertion of a GPU kernel failed: srcIndex < srcSelectDimSize"),
    "jax_coordinator": ("RENDEZVOUS", "The coordinator of the JAX processes does not answer"),
    "jax_memory": ("GPU_OOM", "asked 256.00GiB"),
    "lightning_checkpoint": ("JOB_FAILED", "Checkpoint file not found: /fsx/ckpt/last.ckpt"),
    "lightning_devices": ("GPU_RUNTIME", "More ranks are started than there are GPUs"),
    "loader_bus": ("SHM_TOO_SMALL", "/dev/shm"),
    "loader_files": ("JOB_FAILED", "Too many open files"),
    "loader_killed": ("OOM_CHILD_KILLED", "A child process was killed"),
    "memory_kept": ("GPU_OOM", "asked 4.00 GiB, free 3.29 GiB, total 139.80 GiB"),
    "missing_module": ("JOB_FAILED", "No module named 'flash_attn'"),
    "nccl_devices": ("GPU_RUNTIME", "More ranks are started than there are GPUs"),
    "nccl_net": ("EFA_NOT_USED", "NCCL does not find the network that NCCL_NET asks for"),
    "no_gpu": ("GPU_RUNTIME", "The program sees no GPU"),
    "no_gpu_ordinal": ("GPU_RUNTIME", "More ranks are started than there are GPUs"),
    "no_user": ("JOB_FAILED", "KeyError: 'getpwuid(): uid not found: 0'"),
    "no_master": ("JOB_FAILED", "environment variable RANK expected, but not set"),
    "oom_other_process": ("GPU_OOM", "asked 60.00 GiB, free 38.77 GiB, total 139.80 GiB"),
    "port_in_use": ("JOB_FAILED", "port: 29604, useIpv6: false, code: -98, name: EADDRINUSE"),
    "quota": ("NODE_DISK_FULL", "A checkpoint could not be written whole"),
    "rendezvous": ("RENDEZVOUS", "Only some of the workers arrived at the rendezvous"),
    "safetensors_cut": ("CHECKPOINT_DAMAGED", "damaged or was not written whole"),
    "scaler": ("LOSS_DIVERGED", "its loss or gradients are no numbers any more"),
    "sigterm": ("JOB_FAILED", "torchrun was ended from outside (SIGTERM)"),
    "store_alone": ("RENDEZVOUS", "1 of 2 processes arrived at the rendezvous"),
    "store_name": ("RENDEZVOUS", "The name of the rendezvous, trainer-master-0.trainer, has no address"),
    "store_nameless": ("RENDEZVOUS", "The name of the rendezvous, train-master-0, has no address"),
    "store_timeout": ("RENDEZVOUS", "The rendezvous at 127.0.0.1:29606 does not answer"),
    "threads": ("JOB_FAILED", "can't start new thread"),
    "torchrun_no_file": ("JOB_FAILED", "can't open file '/workspace/train/pretrain.py'"),
    "triton_illegal": ("GPU_APP_FAULT", "A GPU kernel of the program made an illegal access"),
}


@pytest.mark.parametrize("name", ON_ONE_GPU)
def test_small_programs_on_one_gpu_have_the_cause_of_their_end_first(name: str) -> None:
    log = log_of(name, "h200")
    first, *_ = why(ended(log))
    code, words = ON_ONE_GPU[name]
    assert first.code.value == code
    assert words in first.headline
    assert first.severity.value == "error"
    shown = ended(re.sub(r"\x1b\[\d*m", "", log))
    assert all(is_quoted(quote, shown) for quote in first.evidence)


def running(log: str) -> dict[str, object]:
    status = a_container(ready=True, running={"startedAt": "2026-11-29T04:45:05Z"})
    return {"pods": [a_pod(phase="Running", node="n1", containerStatuses=[status])], "logs": log}


def test_a_running_pod_that_looks_up_a_name_for_minutes_waits_for_it() -> None:
    log = log_of("store_nameless", "h200")
    (found,) = why(running(log))
    assert found.code.value == "RENDEZVOUS"
    assert found.headline == "The name of the rendezvous, train-master-0, has no address"
    once = log[: log.index("\n", log.index("cannot be retrieved")) + 1]
    assert why(running(once)) == []
    assert why(running(log + "step 10 loss 2.7152 lr 0.0001\n")) == []
    assert why(running(log + "NCCL version 2.28.9+cuda13.0\n")) == []


def _asking(times: int, error: str = "-3 - Temporary failure in name resolution", family: str = "IPv6 ") -> str:
    line = f"[W socket.cpp:764] [c10d] The {family}network addresses of (train-master-0, 23456) cannot be retrieved"
    return f"{line} (gai error: {error}).\n" * times


_NAMELESS = "The name of the rendezvous, train-master-0, has no address"
_KILLED = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (_asking(3), ("warning", _NAMELESS)),
        (_asking(4, "-2 - Name or service not known", "IPv4 "), ("warning", _NAMELESS)),
        (_asking(4, family=""), ("warning", _NAMELESS)),
        (_asking(2), None),
        (_asking(9) + "NCCL version 2.21.5\n", None),
    ],
)
def test_a_worker_that_goes_on_asking_for_a_name_is_not_well(log: str, told: tuple[str, str] | None) -> None:
    main = a_container(ready=True, running={"startedAt": "2026-01-01T11:00:00Z"})
    pod = a_pod(phase="Running", node="n1", containerStatuses=[main])
    found = why({"pods": [pod], "logs": {"train-0": log}})
    assert [(one.severity.value, one.headline) for one in found] == ([told] if told else [])


@pytest.mark.parametrize("end", ["", _KILLED])
def test_a_worker_that_is_ended_while_it_asks_for_a_name_has_met_nobody(end: str) -> None:
    (told,) = why(ended(_asking(1) + end))
    assert (told.code.value, told.severity.value, told.headline) == ("RENDEZVOUS", "error", _NAMELESS)


def test_a_name_that_was_found_at_last_is_no_cause() -> None:
    assert codes(ended(_asking(5) + "ValueError: no such preset\n")) == ["JOB_FAILED"]


def test_every_log_is_looked_at() -> None:
    assert {path.name for path in (FIXTURES / "h200").glob("log_*")} == {f"log_{name}.txt" for name in ON_ONE_GPU}
