"""The images that are there from the beginning: the files of a containerd, and those of a registry. Made once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import yaml

from actions.base.files import private_directory
from tests.realcluster.harness.parts import BUILD, program
from tests.realcluster.harness.programs import listens, running
from tests.realnode.harness.images import Image, digest_of, write_archive
from tests.realnode.harness.network import GATEWAY

STORE = BUILD / "images"
_STAMP = STORE / "stamp"
REGISTRY = f"{GATEWAY}:5100"
"""The registry to which nodes go in the place of others."""
STANDS_FOR = ("docker.io", "public.ecr.aws", "registry.k8s.io")
_PULLED = ("docker.io/volcanosh/", "public.ecr.aws/data-on-eks/", "registry.k8s.io/kueue/")
"""Beginnings of the names of images that manifests have pulled always, so that a registry must have them."""
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
    await _import(images, root, folder)
    _STAMP.write_text(fingerprint, encoding="ascii")
    return root


async def with_more(root: Path, images: Sequence[Image], folder: Path) -> Path:
    """Return the root of a containerd that has more images than `root`, made anew if either has changed."""
    grown, stamp = STORE / "grown", STORE / "grown.stamp"
    fingerprint = _fingerprint(images)  # the stamp goes with the folder when the others change
    if stamp.exists() and stamp.read_text(encoding="ascii") == fingerprint:
        return grown
    link_images(root, grown)
    await _import(images, grown, folder)
    stamp.write_text(fingerprint, encoding="ascii")
    return grown


def link_images(images: Path, root: Path) -> None:
    """Link a containerd's files, which are never changed in place, and copy its databases, which are."""
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "--archive", "--link", str(images), str(root)], check=True)
    for database in [*root.rglob("meta.db"), *root.rglob("metadata.db")]:
        content = database.read_bytes()
        database.unlink()
        database.write_bytes(content)


async def _import(images: Sequence[Image], root: Path, folder: Path) -> None:
    socket, archive = folder / "containerd.sock", folder / "images.tar"
    argv = ["containerd", "--root", str(root), "--state", str(folder / "state"), "--address", str(socket)]
    async with running(argv, name="image-store", logs=folder) as containerd:
        await containerd.until(lambda: _accepts(socket), "a socket of containerd", deadline_seconds=60)
        write_archive(images, archive)
        ctr = ["ctr", "--address", str(socket), "--namespace", _NAMESPACE, "images"]
        subprocess.run([*ctr, "import", str(archive)], check=True, stdout=subprocess.DEVNULL)
        archive.unlink()
        async with registry(folder):
            for name in (one for image in images for one in image.names if one.startswith(_PULLED)):
                pushed = [*ctr, "push", "--plain-http", f"{REGISTRY}/{name.partition('/')[2]}", name]
                subprocess.run(pushed, check=True, stdout=subprocess.DEVNULL)


@asynccontextmanager
async def registry(folder: Path) -> AsyncIterator[None]:
    """Serve the registry's images until the context is left.

    Args:
        folder: For the settings and the log.
    """
    settings = {
        "version": 0.1,
        "log": {"accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(STORE / "registry")}},
        "http": {"addr": REGISTRY},
    }
    path = folder / "registry.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="ascii")
    host, port = REGISTRY.split(":")
    async with running([program("registry"), "serve", str(path)], name="registry", logs=folder) as served:
        await served.until(partial(listens, int(port), host=host), "an answer of the registry", deadline_seconds=60)
        yield


async def _accepts(socket: Path) -> bool:
    return (
        subprocess.run(["ctr", "--address", str(socket), "version"], capture_output=True, check=False).returncode == 0
    )


def _fingerprint(images: Sequence[Image]) -> str:
    """Changes when one of the images does, wherever its layers lie."""
    digests = {path: digest_of(path) for image in images for path in image.layers}
    told = [(replace(image, layers=()), [digests[path] for path in image.layers]) for image in images]
    return hashlib.sha256(repr(told).encode()).hexdigest()
