"""Pods that a test knows by name, and containers' commands carried out as a kubelet would, without one."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from actions.cluster.remote.port_forward import FindPod


def pod_named(name: str) -> FindPod:
    """Always the pod of this name, whoever bears it."""

    async def find() -> str:
        return name

    return find


ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
_USER = 65534


def as_a_pod(
    arguments: Sequence[str], environment: Mapping[str, str], account: Path, *, memory_bytes: int
) -> subprocess.CompletedProcess[str]:
    """Run Python as a container of the watchdog's pod is run; needs `unshare` and the rights of root.

    Everything is read-only, the token lies where a kubelet mounts it, the user is *nobody* without capabilities, there
    are no variables but those of the pod, and no packages but Python's own.

    Args:
        arguments: Of `python3`.
        environment: The pod's variables, all of them.
        account: The folder with `ca.crt` and `token`.
        memory_bytes: Limit of the container.
    """
    python = f"/mnt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    command = f"{python} -S {shlex.join(arguments)}"
    user = f"--reuid={_USER} --regid={_USER} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs"
    steps = [
        "umask 022",
        "mount --make-rprivate /",
        "mount -t tmpfs none /mnt",
        "mkdir /mnt/python",
        f"mount --bind {shlex.quote(sys.base_prefix)} /mnt/python",
        "mount -t tmpfs none /run",
        f"mkdir -p {ACCOUNT}",
        f"mount --bind {shlex.quote(str(account))} {ACCOUNT}",
        "mount -o remount,ro /run",
        "for place in /tmp /dev/shm /var/tmp; do mount -t tmpfs -o ro none $place; done",
        "mount -o remount,bind,ro /",
        f"exec setpriv {user} prlimit --data={memory_bytes} env LD_LIBRARY_PATH=/mnt/python/lib {command}",
    ]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", "; ".join(["set -e", *steps])],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
