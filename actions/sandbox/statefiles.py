"""The files by which a running sandbox is found: its kubeconfig, and `process.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from actions.base.files import write_private
from actions.base.process import own_identity
from actions.sandbox.locate import CREDENTIALS, ProcessFile

KUBECONFIG = "kubeconfig"
PROCESS = "process.json"
VIEWER = "viewer"


def write_kubeconfig(folder: Path, *, url: str, cluster: str, viewer_token: str = "") -> Path:
    """Write a kubeconfig, 0600, that leads to `url`, and return its path.

    Its second context, `viewer`, is that of somebody who may look at workloads and change nothing.

    Args:
        folder: The sandbox's own.
        url: Of the API server.
        viewer_token: Of the viewer; without one there is no such context.
        cluster: What the context calls the cluster: the ARN of an EKS cluster, as `aws eks update-kubeconfig` does.
    """
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": url}}],
        "users": [{"name": cluster, "user": {}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster, "namespace": "default"}}],
        "current-context": cluster,
    }
    if viewer_token:
        config["users"] += [{"name": VIEWER, "user": {"token": viewer_token}}]
        context = {"cluster": cluster, "user": VIEWER, "namespace": "default"}
        config["contexts"] += [{"name": VIEWER, "context": context}]
    path = folder / KUBECONFIG
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
    return path


def write_credentials(folder: Path) -> Path:
    """Write AWS credentials that only the sandbox takes, 0600, as the file that every AWS library reads.

    A run keeps the path and never a key, so that whoever goes on with it later has them, too.
    """
    path = folder / CREDENTIALS
    write_private(path, b"[default]\naws_access_key_id = demo\naws_secret_access_key = demo\n")
    return path


def write_process(folder: Path, *, url: str, kubeconfig: Path, aws_endpoint_url: str, speed: float) -> Path:
    """Say that this process serves the sandbox; the last thing to be written, in one step."""
    me = own_identity()
    process = ProcessFile(
        pid=me.pid,
        start_ticks=me.start_ticks,
        boot_id=me.boot_id,
        url=url,
        kubeconfig=str(kubeconfig),
        aws_endpoint_url=aws_endpoint_url,
        speed=speed,
    )
    path = folder / PROCESS
    write_private(path, msgspec.json.encode(process))
    return path


def remove_process(folder: Path) -> None:
    """Say that nobody serves it any more; silent if another process has taken the folder over."""
    path = folder / PROCESS
    try:
        process = msgspec.json.decode(path.read_bytes(), type=ProcessFile)
    except (OSError, msgspec.DecodeError):
        return
    if process.identity() == own_identity():
        path.unlink(missing_ok=True)
