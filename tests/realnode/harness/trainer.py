"""The trainer's image as two tars: Debian with torch, Open MPI, sshd and Ray, and the programs of `image/root`.

The root takes minutes and is made again only if what it is made of changes; the programs are packed at each call, and
equal programs make an equal tar. Mirror and index are those that this machine's own `apt` and `pip` use.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.realcluster.harness.parts import BUILD

IMAGE = Path(__file__).parents[1] / "image"
FOLDER = BUILD / "trainer-image"
_STAMP = "root.stamp"
_RELEASE = "bookworm"
"""Has torch 1.13 and Python 3.11, for which Ray 2.22 has a wheel."""
_PACKAGES = (
    "ca-certificates", "iproute2", "openmpi-bin", "openssh-client", "openssh-server", "openssl", "procps", "psmisc",
    "python3-mpi4py", "python3-torch", "wget",
)  # fmt: skip
_SITE = "usr/local/lib/python3.11/dist-packages"
_TORCH = "usr/lib/python3/dist-packages/torch"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_PRUNED = (
    "dev/*", "var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*", "usr/lib/libtorch-test",
    *(f"usr/share/{name}" for name in ("doc", "locale", "man", "info", "iso-codes", "mime", "xml", "proj", "X11")),
    *(f"{_LIBRARIES}/{name}" for name in ("dri", "libLLVM-15.so*", "libz3.so*", "mfx", "libmfxhw64*")),
    *(f"{_TORCH}/{name}" for name in ("bin/test*", "include", "test")),
    *(f"usr/lib/python3/dist-packages/{name}" for name in ("pip", "sympy/integrals/rubi", "hypothesis")),
    *(f"{_SITE}/ray/{name}" for name in ("jars", "cpp", "rllib", "dashboard/client/build/static/js/*.map")),
    f"{_SITE}/bin",
)  # fmt: skip
"""Files that nothing here loads: documents, drivers of screens, tests, Ray's Java and its reinforcement learning."""
_MENDED = (
    (
        f"{_TORCH}/distributed/_shard/sharded_tensor/metadata.py",
        "field(default=TensorProperties())",
        "field(default_factory=TensorProperties)",
    ),
    (f"{_TORCH}/distributed/elastic/multiprocessing/api.py", "for s in Std:", "for s in Std.__members__.values():"),
)
"""File, text, replacement: torch 1.13 does not know Python 3.11; as it is, neither Lightning nor torchrun starts."""
_LINKS = {
    "opt/amazon/openmpi": "/usr",
    "opt/nccl-tests/build/all_reduce_perf": "/usr/local/bin/all_reduce_perf",
    "usr/local/bin/python": "/usr/bin/python3",
    "usr/local/bin/fi_info": "/opt/amazon/efa/bin/fi_info",
    **{
        f"usr/local/bin/{name}": f"/opt/aws/neuron/bin/{name}"
        for name in ("neuron-ls", "neuron-monitor", "neuron-top", "neuron_parallel_compile")
    },
}
"""Paths at which manifests look for a program → its own."""
_TOLD_CHARACTERS = 2000
_TIME = 1_700_000_000
"""Of all programs; Ray packs some into a zip archive, which knows no time before 1980."""
_OTHER_DATASETS = "4.0.0"
"""The version of `datasets` that a runtime environment may ask for, beside the one that is there."""


@dataclass(frozen=True, slots=True)
class TrainerImage:
    """The layers of the image, the root first. Neither is compressed."""

    root_tar: Path
    programs_tar: Path

    @classmethod
    def of(cls, folder: Path) -> TrainerImage:
        """Return the tars of a folder, whether they are there or not."""
        return cls(folder / "root.tar", folder / "programs.tar")


def lacking() -> str:
    """Return in one line what this machine lacks to make the root; empty if it can, or need not."""
    if _is_current(FOLDER):
        return ""
    names = [name for name in ("apt-get", "chroot", "debootstrap", "tar") if not shutil.which(name)]
    return f"{', '.join(names)} not on PATH, with which the trainer's image is made" if names else ""


def build_trainer(folder: Path = FOLDER) -> TrainerImage:
    """Make what is out of date.

    Args:
        folder: Of the tars, and of the stamp of what the root was made of.

    Raises:
        subprocess.CalledProcessError: A program failed; it has said why on stderr.
        ValueError: Debian's torch is not the one that is mended here, or `apt` has no source of the release.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = TrainerImage.of(folder)
    if not _is_current(folder):
        stamp = folder / _STAMP
        stamp.unlink(missing_ok=True)
        root = folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        try:
            _make_root(root)
            _run("tar", "--numeric-owner", "--sort=name", "-C", str(root), "-cf", str(made.root_tar), ".")
        finally:
            shutil.rmtree(root, ignore_errors=True)
        stamp.write_text(_fingerprint(), encoding="ascii")
    _pack_programs(made.programs_tar)
    return made


def _is_current(folder: Path) -> bool:
    """Return whether the root in `folder` is what would be made now."""
    stamp = folder / _STAMP
    is_there = TrainerImage.of(folder).root_tar.exists() and stamp.exists()
    return is_there and stamp.read_text(encoding="ascii") == _fingerprint()


def _fingerprint() -> str:
    requirements = (IMAGE / "requirements.txt").read_bytes()
    return hashlib.sha256(repr((_RELEASE, _PACKAGES, _PRUNED, _MENDED, requirements)).encode()).hexdigest()


def _make_root(root: Path) -> None:
    include = f"--include={','.join(_PACKAGES)}"
    _run("debootstrap", "--variant=minbase", include, _RELEASE, str(root), _mirror())
    _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--root-user-action=ignore"),
        *("--only-binary=:all:", "--python-version=3.11", "--platform=manylinux2014_x86_64"),
        *(f"--target={root / _SITE}", f"--requirement={IMAGE / 'requirements.txt'}"),
    )
    for name, text, replacement in _MENDED:
        path = root / name
        content = path.read_text(encoding="utf-8")
        if content.count(text) != 1:
            raise ValueError(f"{path} has not once what is mended: {text}")
        path.write_text(content.replace(text, replacement), encoding="utf-8")
    for pattern in _PRUNED:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    _run("chroot", str(root), "python3", "-m", "compileall", "-q", f"/{_SITE}", f"/{_TORCH}/distributed")


def _mirror() -> str:
    """The address of the release's packages among the sources of this machine's `apt`."""
    command = ("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages")
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [line.partition(" ")[2] for line in listed.splitlines() if line.startswith(f"{_RELEASE} ")]
    if not found:
        raise ValueError(f"apt has no source of Debian {_RELEASE}: add one, such as that of /etc/apt/sources.list")
    return found[0]


def _run(*argv: str) -> None:
    """Run a program, politely; what it prints is shown if it fails."""
    command: Sequence[str] = ("nice", "-n", "10", *argv)
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    )
    if done.returncode:
        sys.stderr.write(done.stdout[-_TOLD_CHARACTERS:])
        done.check_returncode()


def _pack_programs(path: Path) -> None:
    """Pack `image/root`, the links and the wheel; a tar that is there already and equal stays as it is."""
    packed = io.BytesIO()
    root = IMAGE / "root"
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(_entry("run/sshd", 0o755, tarfile.DIRTYPE))
        for name, target in sorted(_LINKS.items()):
            archive.addfile(_entry(name, 0o777, tarfile.SYMTYPE, target))
        for source in sorted(root.rglob("*")):
            if source.is_file() and source.suffix != ".pyc":
                mode = 0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644
                _add(archive, _entry(str(source.relative_to(root)), mode), source.read_bytes())
        wheel = _entry(f"opt/wheels/datasets-{_OTHER_DATASETS}-py3-none-any.whl", 0o644)
        _add(archive, wheel, _wheel(root / _SITE / "datasets"))
    if not path.exists() or path.read_bytes() != packed.getvalue():
        path.write_bytes(packed.getvalue())


def _entry(name: str, mode: int, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.linkname, entry.mtime = mode, kind, target, _TIME
    return entry


def _add(archive: tarfile.TarFile, entry: tarfile.TarInfo, content: bytes) -> None:
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _wheel(package: Path) -> bytes:
    """Make a wheel of the image's `datasets` under another version."""
    about = f"datasets-{_OTHER_DATASETS}.dist-info"
    files = {
        **{f"datasets/{source.name}": source.read_bytes() for source in sorted(package.glob("*.py"))},
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: datasets\nVersion: {_OTHER_DATASETS}\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: realnode\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD")).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


if __name__ == "__main__":
    build_trainer()
