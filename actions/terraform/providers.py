"""Packages of providers: one cache for all runs, and archives in a mirror for machines without a way to the registry.

Left alone, `terraform init` downloads every provider into each root's own `.terraform`: hashicorp/aws alone has some
700 MB unpacked. With a plugin cache a root holds links instead. Terraform does not lock that folder, so an init holds a
lock of ours on it. The operator's own CLI configuration takes precedence.

Source: developer.hashicorp.com/terraform/cli/config/config-file, "Provider Installation" and "Provider Plugin Cache".
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConfigError, ConflictError
from actions.base.files import private_directory, read_file, take_lock, write_private
from actions.terraform import plugin_cache
from actions.terraform.backend import own_backend
from actions.terraform.hcl import blocks_in, source_of
from actions.terraform.plugin_cache import note_user, plugin_cache_folder
from actions.terraform.program import PUBLIC_REGISTRY
from actions.terraform.working_directory import LOCK_FILE, MODULES_FOLDER, PROVIDERS_FOLDER, locked_providers

CACHE_VARIABLE = "TF_PLUGIN_CACHE_DIR"
CONFIGURATION_VARIABLE = "TF_CLI_CONFIG_FILE"
MAX_PACKAGE_BYTES = 512 << 20
"""Of one archive. hashicorp/aws 5.100.0 has 0.16 GB."""

_RELEASES = "https://releases.hashicorp.com"
_OWNER = "hashicorp/"
"""Owner of the providers whose archives are at `_RELEASES`."""
_SETTINGS_FILE = "init.tfrc"
_MIRROR = ".mirror"
"""Links to archives, for the time of an init."""
_LOOK_SECONDS = 0.2
_BLOCK = re.compile(r'^provider "registry\.terraform\.io/(?P<name>[^"]+)" \{(?P<body>.*?)^\}', re.M | re.S)
_VERSION = re.compile(r'^\s*version\s*=\s*"([^"]+)"', re.M)
_ZIP_SHA256 = re.compile(r'"zh:([0-9a-f]{64})"')
_OWN_MIRROR = re.compile(r"^\s*(provider_installation|dev_overrides)\b", re.M)
_OWN_CACHE = re.compile(r"\b(plugin_cache_dir|filesystem_mirror|dev_overrides)\b")
_PROVIDERS = ("required_providers", "provider")
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class ProviderPackage(msgspec.Struct, frozen=True):
    """One version of a provider of the public registry, as a lock file pins it."""

    name: str
    """As in `required_providers`: `hashicorp/aws`."""
    version: str
    sha256s: frozenset[str]
    """Of its archives, one for each platform."""

    @property
    def key(self) -> str:
        """Name and version: `hashicorp/aws/5.100.0`."""
        return f"{self.name}/{self.version}"

    def file_name(self, platform: str) -> str:
        """Return the name of its archive for a platform, such as `linux_amd64`."""
        return f"terraform-provider-{self.name.rpartition('/')[2]}_{self.version}_{platform}.zip"

    def path_in(self, mirror: Path, platform: str) -> Path:
        """Return the path of its archive in a mirror, where Terraform looks for it."""
        return mirror / PUBLIC_REGISTRY / self.name / self.file_name(platform)

    def url(self, platform: str) -> str:
        """Return the address of its archive; empty if it has to be asked of the registry."""
        if not self.name.startswith(_OWNER):
            return ""
        program = f"terraform-provider-{self.name.removeprefix(_OWNER)}"
        return f"{_RELEASES}/{program}/{self.version}/{self.file_name(platform)}"

    def require(self, archive: bytes, platform: str) -> None:
        """Refuse an archive that the lock file does not know.

        Raises:
            ConflictError: Its digest is none of those that are recorded.
        """
        found = hashlib.sha256(archive).hexdigest()
        if found not in self.sha256s:
            raise ConflictError(
                f"{self.file_name(platform)} has the sha256 {found[:16]}…, which the lock file does not record.",
                hint="Find out why before you use it.",
            )


def this_platform() -> str:
    """Return the platform of this machine as Terraform names it: `linux_amd64`.

    Raises:
        ConfigError: Its processor is not one that is known here.
    """
    system = os.uname()
    machine = _MACHINES.get(system.machine.lower())
    if machine is None:
        raise ConfigError(f"Terraform's name for {system.machine} is not known.", hint="Give it with --platform.")
    return f"{system.sysname.lower()}_{machine}"


def locked_packages(lock_file: Path) -> tuple[ProviderPackage, ...]:
    """Return the packages that a `.terraform.lock.hcl` pins by the digests of their archives."""
    try:
        text = read_file(lock_file).decode(errors="replace")
    except OSError:
        return ()
    found = []
    for block in _BLOCK.finditer(text):
        version, sha256s = _VERSION.search(block["body"]), frozenset(_ZIP_SHA256.findall(block["body"]))
        if version is not None and sha256s:
            found.append(ProviderPackage(block["name"], version[1], sha256s))
    return tuple(found)


def discard_installed(work: Path) -> None:
    """Remove providers and modules from a working directory that holds nothing any more; init brings them back.

    With a backend that the root configures itself, modules stay: without them Terraform does not read its state.
    """
    shutil.rmtree(work / PROVIDERS_FOLDER, ignore_errors=True)
    if not own_backend(work):
        shutil.rmtree(work / MODULES_FOLDER, ignore_errors=True)


@asynccontextmanager
async def installing(
    work: Path,
    environment: Mapping[str, str],
    clock: Clock,
    *,
    mirror: Path | None = None,
    registry: str = PUBLIC_REGISTRY,
) -> AsyncIterator[dict[str, str]]:
    """Give the variables for an init in a working directory: those of the shared cache, and of a mirror.

    Args:
        work: The working directory, with the root's files and lock file.
        environment: Of the init, beside this process' own.
        clock: Waits for another init that uses the cache.
        mirror: Folder of archives; it may not exist.
        registry: Of the program.

    Raises:
        ConfigError: The cache cannot be made.
    """
    known = {**os.environ, **environment}
    if not _needs_providers(work):
        yield {}
        return
    configured = _configuration(known, registry)
    given = _mirror_settings(work, configured, mirror, registry)
    try:
        if known.get(CACHE_VARIABLE) or _OWN_CACHE.search(configured):
            yield given
            return
        cache = private_directory(plugin_cache_folder())
        with (cache / plugin_cache.LOCK_FILE).open("w") as lock:
            while not take_lock(lock.fileno()):
                await clock.sleep(_LOOK_SECONDS)
            note_user(cache, work)
            yield {**given, CACHE_VARIABLE: str(cache)}
    finally:
        (work / _SETTINGS_FILE).unlink(missing_ok=True)
        shutil.rmtree(work / _MIRROR, ignore_errors=True)


def _needs_providers(work: Path) -> bool:
    return any(block.headers[-1][0] in _PROVIDERS for block in blocks_in(source_of(work)) if block.headers[-1])


def _configuration(known: Mapping[str, str], registry: str) -> str:
    """Return the text of the operator's CLI configuration; empty if there is none."""
    home = Path(known.get("HOME") or Path.home())
    places = [home / ".terraformrc"]
    if registry != PUBLIC_REGISTRY:
        places = [home / ".tofurc", *places, Path(known.get("XDG_CONFIG_HOME") or home) / "opentofu" / "tofurc"]
    if known.get(CONFIGURATION_VARIABLE):
        places = [Path(known[CONFIGURATION_VARIABLE])]
    for place in places:
        with suppress(OSError):
            return read_file(place).decode(errors="replace")
    return ""


def _mirror_settings(work: Path, configured: str, mirror: Path | None, registry: str) -> dict[str, str]:
    """Write a CLI configuration that takes what the mirror has from there, and the rest from its origin.

    It repeats the operator's own, perhaps with tokens, so it lives no longer than the init. An archive of a provider is
    good for either program, so links to it have the name of its registry.
    """
    if mirror is None or not mirror.is_dir() or _OWN_MIRROR.search(configured):
        return {}
    platform = this_platform()
    locked = locked_providers(work / LOCK_FILE).items()
    packages = [ProviderPackage(name, version, frozenset()) for name, version in locked]
    held = [package for package in packages if package.path_in(mirror, platform).is_file()]
    if not held:
        return {}
    links = (work / _MIRROR).absolute()
    for package in held:
        link = links / registry / package.name / package.file_name(platform)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(package.path_in(mirror, platform).absolute())
    listed = _quoted(f"{registry}/{package.name}" for package in held)
    text = (
        f"{configured}\nprovider_installation {{\n"
        f"  filesystem_mirror {{\n    path    = {_quoted([str(links)])[1:-1]}\n    include = {listed}\n  }}\n"
        f"  direct {{\n    exclude = {listed}\n  }}\n}}\n"
    )
    write_private(work / _SETTINGS_FILE, text.encode())
    return {CONFIGURATION_VARIABLE: str((work / _SETTINGS_FILE).resolve())}


def _quoted(values: Iterable[str]) -> str:
    return msgspec.json.encode(list(values)).decode()
