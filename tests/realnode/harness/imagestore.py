"""The files of a containerd that has all images: made once, and linked by each node."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from actions.base.files import private_directory
from tests.realcluster.harness.parts import BUILD
from tests.realcluster.harness.programs import running
from tests.realnode.harness.images import Image, write_archive

STORE = BUILD / "images"
_STAMP = STORE / "stamp"
_NAMESPACE = "k8s.io"
"""Of containerd: where the kubelet's images are."""


async def image_store(images: Sequence[Image], folder: Path) -> Path:
    """Return the root of a containerd with these images, made anew if they have changed.

    Args:
        images: All of them.
        folder: For the socket, the log and the archive on its way.

    Raises:
        subprocess.CalledProcessError: containerd refused one, and said why on stderr.
    """
    root, fingerprint = STORE / "root", _fingerprint(images)
    if _STAMP.exists() and _STAMP.read_text(encoding="ascii") == fingerprint:
        return root
    shutil.rmtree(STORE, ignore_errors=True)
    private_directory(STORE)
    socket, archive = folder / "containerd.sock", folder / "images.tar"
    argv = ["containerd", "--root", str(root), "--state", str(folder / "state"), "--address", str(socket)]
    async with running(argv, name="image-store", logs=folder) as containerd:
        await containerd.until(lambda: _accepts(socket), "a socket of containerd", deadline_seconds=60)
        write_archive(images, archive)
        imported = ["ctr", "--address", str(socket), "--namespace", _NAMESPACE, "images", "import", str(archive)]
        subprocess.run(imported, check=True, stdout=subprocess.DEVNULL)
        archive.unlink()
    _STAMP.write_text(fingerprint, encoding="ascii")
    return root


async def _accepts(socket: Path) -> bool:
    return (
        subprocess.run(["ctr", "--address", str(socket), "version"], capture_output=True, check=False).returncode == 0
    )


def _fingerprint(images: Sequence[Image]) -> str:
    """Changes when one of the images does: by size and time of a layer, as reading them all takes seconds."""
    layers = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for image in images for path in image.layers]
    return hashlib.sha256(repr((images, layers)).encode()).hexdigest()
