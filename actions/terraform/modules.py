"""Releases of public Terraform modules: which of them a root calls, and how they get into its working directory.

Left alone, `terraform init` asks the registry for a module, and fetches what that names with `git`. A working directory
whose `.terraform/modules` holds the right releases already is left as it is: then neither registry nor git is needed.
`assets/terraform/modules.json` pins each release by the address of its archive and the digest of its files.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConflictError, FormatError
from actions.base.files import asset, private_directory, read_file, write_private
from actions.terraform.hcl import blocks_in, source_of
from actions.terraform.program import PUBLIC_REGISTRY
from actions.terraform.working_directory import MODULES_FOLDER

_MAX_UNPACKED_BYTES = 32 << 20
MAX_ARCHIVE_BYTES = 8 << 20
"""Of one release. terraform-aws-eks 20.37.2 has 0.3 MB."""
_UNUSED = ("examples", "tests", "docs", "wrappers", ".github")
"""Folders of a release that no caller refers to."""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class ModuleRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One release of a module of the registry."""

    source: str
    """As a root writes it: `terraform-aws-modules/eks/aws`."""
    version: str
    commit: str
    """Of its repository, at the tag of the version."""
    url: str
    """A `.tar.gz` of that tag."""
    h1: str
    """The digest of its files, as Go's `dirhash.Hash1` computes it: archives of the same files differ."""
    calls: dict[str, str] = msgspec.field(default_factory=dict)
    """Modules of the registry that it calls itself: name of the call → source, in the one pinned version."""

    @property
    def key(self) -> str:
        """Source and version: `terraform-aws-modules/eks/aws/20.37.2`."""
        return f"{self.source}/{self.version}"

    @property
    def file_name(self) -> str:
        """The name of its archive in a folder of archives."""
        return f"{self.key.replace('/', '-')}.tar.gz"


class ModuleCall(msgspec.Struct, frozen=True):
    """A call of a pinned release in a root or in another release."""

    path: str
    """Names of the calls that lead there: `eks.kms`."""
    release: ModuleRelease
    folder: str
    """Folder in the release, as after `//` in a source; mostly empty."""

    @property
    def source(self) -> str:
        """The source as a root writes it."""
        return f"{self.release.source}//{self.folder}" if self.folder else self.release.source


@cache
def module_releases() -> Mapping[str, ModuleRelease]:
    """Return the pinned releases, by `key`."""
    rows = decode_json(read_file(asset("terraform/modules.json")), list[ModuleRelease])
    return {row.key: row for row in rows}


def module_calls(root: Path) -> tuple[ModuleCall, ...]:
    """Return the calls of pinned releases in a root, with those that they make themselves.

    Calls of anything else are left to `terraform init`.

    Raises:
        FormatError: A file of the root cannot be read.
    """
    found: list[ModuleCall] = []
    for block in blocks_in(source_of(root)):
        match block.headers:
            case [("module", name)] if _NAME.fullmatch(name):  # it becomes that of a folder
                source, _, folder = block.text("source").partition("//")
                release = module_releases().get(f"{source}/{block.text('version')}")
                if release is not None:
                    found.extend(_with_inner(ModuleCall(name, release, folder)))
    return tuple(found)


def _with_inner(call: ModuleCall) -> Iterator[ModuleCall]:
    yield call
    for name, source in call.release.calls.items() if not call.folder else ():
        inner = next(each for each in module_releases().values() if each.source == source)
        yield from _with_inner(ModuleCall(f"{call.path}.{name}", inner, ""))


def release_files(archive: bytes, release: ModuleRelease) -> dict[str, bytes]:
    """Return the files of an archive by their path below its one folder.

    Raises:
        FormatError: It is not an archive, is too large, or holds links or paths that lead out of it.
        ConflictError: Its files are not those that are pinned.
    """
    try:
        files = dict(_members(archive, release))
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"The archive of {release.key} cannot be read: {error}.") from error
    found = dirhash(files)
    if found != release.h1:
        raise ConflictError(
            f"The files of {release.key} have the digest {found}, and {release.h1} is recorded.",
            hint="Find out why before you use them.",
        )
    return files


def _members(archive: bytes, release: ModuleRelease) -> Iterator[tuple[str, bytes]]:
    with gzip.open(io.BytesIO(archive)) as unzipped:
        data = unzipped.read(_MAX_UNPACKED_BYTES + 1)
    if len(data) > _MAX_UNPACKED_BYTES:
        raise FormatError(f"The archive of {release.key} holds more than {_MAX_UNPACKED_BYTES >> 20} MiB.")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if member.isdir():
                continue
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
                raise FormatError(
                    f"The archive of {release.key} holds {member.name[:80]!r}, which is not a file in it."
                )
            yield "/".join(path.parts[1:]), stream.read()


def dirhash(files: Mapping[str, bytes]) -> str:
    """Return `h1:` and the digest of files by name and content (golang.org/x/mod, `sumdb/dirhash`)."""
    lines = (f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n" for path in sorted(files))
    return "h1:" + base64.b64encode(hashlib.sha256("".join(lines).encode()).digest()).decode()


def install_modules(root: Path, work: Path, archives: Path, *, registry: str = PUBLIC_REGISTRY) -> tuple[str, ...]:
    """Put the pinned releases that a root calls where `terraform init` looks first.

    Args:
        root: The root.
        work: Its working directory; with modules in it already, it is left alone.
        archives: The folder of archives that the run was launched with; it may not exist.
        registry: From which the program takes modules whose sources name none.

    Returns:
        The keys of what was put there; empty if one archive is missing: then Terraform fetches all modules itself.

    Raises:
        FormatError, ConflictError: An archive is not what was recorded.
    """
    calls = module_calls(root)
    present = {call.release.key: archives / call.release.file_name for call in calls}
    if (
        not calls
        or (work / MODULES_FOLDER / "modules.json").exists()
        or not all(path.is_file() for path in present.values())
    ):
        return ()
    contents = {
        call.release.key: release_files(read_file(present[call.release.key]), call.release)
        for call in {call.release.key: call for call in calls}.values()
    }
    for call in calls:
        _write_files(private_directory(work / MODULES_FOLDER / call.path), contents[call.release.key])
    entries = [{"Key": "", "Source": "", "Dir": "."}, *(_entry(call, registry) for call in calls)]
    write_private(work / MODULES_FOLDER / "modules.json", msgspec.json.encode({"Modules": entries}))
    return tuple(contents)


def _entry(call: ModuleCall, registry: str) -> dict[str, str]:
    """Return a line of `modules.json`, as Terraform writes it."""
    folder = PurePosixPath(MODULES_FOLDER, call.path, call.folder)
    return {
        "Key": call.path,
        "Source": f"{registry}/{call.source}",
        "Version": call.release.version,
        "Dir": str(folder),
    }


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        if not name.startswith(tuple(f"{unused}/" for unused in _UNUSED)):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, data, is_synced=False)
