"""GPUs, Neuron devices, EFA and the collectives over them."""

from __future__ import annotations

from tests.unit.diagnose.samples import an_event
from tests.unit.diagnose.troubles import Case, ended, gpus, refused

LOST_LOSS = "\n".join(
    f"Epoch 0:   5%|5    | {step}/60 [00:01<00:09, 5.24it/s, reduced_train_loss={loss}, global_step={step}.0]"
    for step, loss in enumerate(("9.10", "8.75", "nan.0", "nan.0", "nan.0"))
)

CASES: list[Case] = [
    ("diverged", "LOSS_DIVERGED", {"logs": LOST_LOSS}),
    ("locked memory", "EFA_MEMORY", {"logs": "libfabric:efa:mr: Unable to register MR: Cannot allocate memory"}),
    (
        "no rdma",
        "EFA_MEMORY",
        {"logs": "FI_EFA_USE_DEVICE_RDMA=1 was set, but EFA device has no rdma-read capability."},
    ),
    ("hugepages", "EFA_MEMORY", refused("0/2 nodes are available: 2 Insufficient hugepages-2Mi.")),
    ("sockets", "EFA_NOT_USED", {"logs": "train-0:9:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"}),
    (
        "no plugin",
        "EFA_NOT_USED",
        {"logs": "NCCL INFO NET/OFI No eligible providers were found\nNCCL INFO Using network Socket"},
    ),
    ("xid 95", "GPU_ECC", {"logs": "NVRM: Xid (PCI:0000:53:00): 95, pid=1, name=python, Uncontained"}),
    ("xid 92", "GPU_ECC_CONTAINED", {"logs": "NVRM: Xid (PCI:0000:92:00): 92, high single-bit error rate"}),
    ("xid 120", "GPU_GSP", {"logs": "NVRM: Xid (PCI:0000:13:00): 120, GSP task exception"}),
    ("lost", "GPU_LOST", {"logs": "Unable to determine the device handle for GPU 0000:5E:00.0: GPU is lost."}),
    ("xid 151", "GPU_REBOOT", {"logs": "[1.0] NVRM: Xid (PCI:0000:79:00): 151, key rotation error"}),
    ("xid 46", "GPU_REBOOT", {"logs": "NVRM: Xid (PCI:0000:79:00): 46, pid=7, name=python3, GPU stopped processing"}),
    ("xid 62", "GPU_GSP", {"logs": "NVRM: Xid (PCI:0000:79:00): 62, 2d2b(33c4) 00000000 00000000"}),
    ("xid 70", "GPU_APP_FAULT", {"logs": "NVRM: Xid (PCI:0000:79:00): 70, pid=7, name=python3, CE3: Unknown Error"}),
    ("xid 110 event", "GPU_REBOOT", {"events": [an_event("NvidiaXID110Error", "detected XID-110", "n1", kind="Node")]}),
    ("xid 999", "GPU_REBOOT", {"logs": "NVRM: Xid (PCI:0000:79:00): 999, something of a later driver"}),
    ("nvswitch", "NVLINK", {"logs": "nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"}),
    ("xid 13 event", "GPU_APP_FAULT", {"events": [an_event("NvidiaXID13Warning", "NvidiaXID13", "n1", kind="Node")]}),
    (
        "cuda oom",
        "GPU_OOM",
        ended(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of"
            " 79.15 GiB of which 1.12 GiB is free.\n"
        ),
    ),
    (
        "nvml",
        "GPU_RUNTIME",
        {"events": [an_event("Failed", "Error: nvidia-container-cli: initialization error: nvml error: not loaded")]},
    ),
    ("no driver", "GPU_RUNTIME", ended("RuntimeError: Found no NVIDIA driver on your system.\n")),
    (
        "gated 403",
        "HF_GATED",
        ended("403 Client Error: Forbidden for url: https://huggingface.co/meta-llama/L/resolve/x"),
    ),
    ("hang", "LIKELY_HANG", gpus(100, 118, 2400)),
    (
        "one gpu twice",
        "NCCL_DUPLICATE_GPU",
        ended("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60"),
    ),
    (
        "no interface",
        "NCCL_NO_INTERFACE",
        ended(
            "[2026-11-25 22:43:38] w-0:3383:3383 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found\n"
        ),
    ),
    ("peer", "NCCL_PEER_DIED", ended("NCCL WARN socketProgress: Connection closed by remote peer w-1<1>\n", 134)),
    (
        "late timeout",
        "NCCL_TIMEOUT",
        ended(
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9812, OpType=ALLREDUCE,"
            " Timeout(ms)=1800000) ran for 1800022 milliseconds before timing out.\n"
        ),
    ),
    ("neuron collective", "NEURON_COLLECTIVE_HANG", {"logs": "nrt_execute failed: NRT_EXEC_HW_ERR_COLLECTIVES (1200)"}),
    (
        "neuron timeout",
        "NEURON_COLLECTIVE_HANG",
        {"logs": "(FATAL-RT-UNDEFINED-STATE) inference timeout (600000 ms) on Neuron Device 4 NC 1, waiting"},
    ),
    ("fork", "EFA_MEMORY", ended("    pid = os.fork()\nOSError: [Errno 12] Cannot allocate memory\n")),
    ("errors of a reading", "GPU_ECC", {"gpus": [{"util_pct": 3, "ecc_uncorrected": 2}, {"util_pct": 90}]}),
    ("neuron hardware", "NEURON_HW", {"logs": "ERROR NRT: NRT_EXEC_HW_ERR_DMA_ABORT in nrt_execute()"}),
    ("neuron memory", "NEURON_HW", {"logs": "Uncorrectable memory error is detected on Neuron device: 5:1"}),
    ("neuron busy", "NEURON_CORES_BUSY", {"logs": "Logical Neuron Core(s) not available - Requested:8 Available:0"}),
    ("neuron driver", "NEURON_DRIVER", {"logs": "This runtime requires Neuron Driver version 2.0 or greater."}),
    ("neuron queue", "NEURON_NQ_OVERFLOW", {"logs": "status=NRT_EXEC_SW_NQ_OVERFLOW"}),
    (
        "clients",
        "RENDEZVOUS",
        ended(
            "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 6/8 clients joined.\n"
        ),
    ),
]
