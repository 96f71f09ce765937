"""The files by which a running sandbox is found: its kubeconfig, and `process.json`."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path
from typing import Any

import msgspec
import yaml

from actions.base.decoding import decode_json
from actions.base.files import private_directory, read_file, write_private
from actions.base.process import own_identity, own_module
from actions.sandbox.locate import CREDENTIALS, PROGRAMS, ProcessFile
from actions.sandbox.model.keys import AccessKey, SandboxKeys

KUBECONFIG = "kubeconfig"
PROCESS = "process.json"
VIEWER = "viewer"
_Dumper = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


def write_kubeconfig(folder: Path, *, url: str, authority: bytes, cluster: str, keys: SandboxKeys) -> Path:
    """Write a kubeconfig, 0600, that leads to `url`, and return its path.

    Its second context, `viewer`, is for the user who may read workloads and change nothing.

    Args:
        folder: The sandbox's.
        url: The API server's.
        authority: The certificate authority, in PEM.
        keys: The tokens of administrator and viewer among them.
        cluster: The cluster's name in the context: the ARN of an EKS cluster, as by `aws eks update-kubeconfig`.
    """
    trusted = base64.b64encode(authority).decode()
    users = {cluster: keys.administrator, VIEWER: keys.viewer}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": url, "certificate-authority-data": trusted}}],
        "users": [{"name": name, "user": {"token": token}} for name, token in users.items()],
        "contexts": [{"name": name, "context": {"cluster": cluster, "user": name}} for name in users],
        "current-context": cluster,
    }
    path = folder / KUBECONFIG
    write_private(path, yaml.dump(config, Dumper=_Dumper, sort_keys=False).encode())
    return path


def write_credentials(folder: Path, key: AccessKey) -> Path:
    """Write AWS credentials that only the sandbox takes, 0600, as the file that every AWS library reads.

    A run keeps the path and never a key, so that a later runner has them, too.
    """
    path = folder / CREDENTIALS
    text = f"[default]\naws_access_key_id = {key.id}\naws_secret_access_key = {key.secret}\n"
    write_private(path, text.encode())
    return path


def write_terraform(folder: Path) -> Path:
    """Write the program that stands in for `terraform`, and return its folder, which is to be put on PATH."""
    programs = private_directory(folder / PROGRAMS)
    path = programs / "terraform"
    write_private(path, f'#!/bin/sh\nexec {shlex.join(own_module("actions.sandbox.terraform"))} "$@"\n'.encode())
    path.chmod(0o700)
    return programs


def write_process(folder: Path, *, url: str, kubeconfig: Path, aws_endpoint_url: str, speed: float) -> Path:
    """Write that this process serves the sandbox; the last file to be written, in one step."""
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
    """Remove that file at the end; leave it if another process has taken the folder over."""
    path = folder / PROCESS
    try:
        process = decode_json(read_file(path), ProcessFile)
    except (OSError, msgspec.DecodeError):
        return
    if process.identity() == own_identity():
        path.unlink(missing_ok=True)
