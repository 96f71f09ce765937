"""Images without a registry: files and tars on this machine as an archive that containerd imports."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Image:
    """Names, layers and defaults of one image."""

    names: tuple[str, ...]
    """With registry and tag, as manifests name it once it is complete: `docker.io/kubeflow/training-operator:v1`."""
    layers: tuple[Path, ...]
    """Tars, uncompressed."""
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    folder: str = "/"
    """In which its processes start."""


def layer_of(
    files: Mapping[str, Path],
    path: Path,
    *,
    links: Mapping[str, str] | None = None,
    folders: Mapping[str, int] | None = None,
) -> Path:
    """Write a tar of single files, owned by root and with no time, so that equal files make equal layers.

    Args:
        files: What is in it, by path in the image.
        path: Of the tar.
        links: Symbolic links, by path in the image.
        folders: Modes of folders that differ from 0755, by path in the image.
    """
    scratch = path.with_suffix(f".{os.getpid()}")  # another cluster may be reading the one that is there
    with tarfile.open(scratch, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, mode in sorted((folders or {}).items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
        for name, target in sorted((links or {}).items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(entry)
        for name, source in sorted(files.items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = source.stat().st_size, 0o755
            with source.open("rb") as content:
                archive.addfile(entry, content)
    scratch.replace(path)
    return path


def write_archive(images: Iterable[Image], path: Path) -> None:
    """Write images as one archive, in the form of `docker save`; a layer that several have is there once."""
    digests: dict[Path, str] = {}
    listed: list[dict[str, Any]] = []
    with tarfile.open(path, "w") as archive:
        for image in images:
            for layer in image.layers:
                if layer not in digests:
                    digests[layer] = digest_of(layer)
                    archive.add(layer, f"{digests[layer]}.tar")
            config = json.dumps(_config(image, [digests[layer] for layer in image.layers])).encode()
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, name, config)
            layers = [f"{digests[layer]}.tar" for layer in image.layers]
            listed.append({"Config": name, "RepoTags": list(image.names), "Layers": layers})
        _add(archive, "manifest.json", json.dumps(listed).encode())


def _config(image: Image, digests: list[str]) -> dict[str, Any]:
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **image.environment}
    config = {
        "Entrypoint": list(image.entrypoint) or None,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": image.user,
        "WorkingDir": image.folder,
    }
    layers = {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]}
    return {"architecture": "amd64", "os": "linux", "config": config, "rootfs": layers}


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
