"""Made-up logs of finished pods: a trainer's lines, about 170 bytes each with their timestamp."""

from __future__ import annotations

from tests.bench.fleet import Document

NAMESPACE = "logs"
PODS = 40
LINES = 10_000
METRIC_EVERY = 20
"""One line in so many holds what a curve is made of."""
_CREATED = "2026-11-20T08:00:00Z"


def log_line(index: int) -> tuple[str, str]:
    """One line: its timestamp and its text."""
    minute, second = divmod(index // 100, 60)
    stamp = f"2026-11-20T08:{minute:02d}:{second:02d}.{index % 100 * 10_000_000 + 1:09d}Z"
    if index % METRIC_EVERY:
        text = f"worker-{index % 8}:412:{index % 97} [0] loader.py:{index % 400} shard {index:6d} prefetched, queue ok"
    else:
        text = f"Epoch 0: {index / LINES:7.2%} | step {index:6d} | loss={2.5 - index / LINES:.4f} | lr=0.0001"
    return stamp, f"{text} {'.' * 60}"


def finished_pod(name: str, node: str) -> Document:
    """A pod whose one container has ended."""
    container = f"containerd://{name}"  # stern prints nothing of an ended container whose state does not repeat it
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": _CREATED, "containerID": container}}
    status = {"name": "main", "restartCount": 0, "state": ended, "containerID": container}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "creationTimestamp": _CREATED},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "main", "image": "trainer"}]},
        "status": {"phase": "Succeeded", "containerStatuses": [status]},
    }
