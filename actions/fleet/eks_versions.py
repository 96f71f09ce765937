"""Versions that belong together: EKS with the ends of its support, charts, images, zones; `assets/versions/eks.json`.

A version that the table does not list is newer than the table: nothing is refused for that.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.files import asset, read_file


class Support(StrEnum):
    """The support that EKS gives a Kubernetes version on a day; the price of a control plane follows from it."""

    STANDARD = "standard"
    EXTENDED = "extended"
    ENDED = "ended"
    """No new cluster can be made; EKS updates those that there are."""


class EksVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Kubernetes version of EKS."""

    version: str
    """`1.35`."""
    standard_until: date
    """The day, UTC, with whose beginning extended support is billed."""
    extended_until: date
    """The day from which on EKS updates the cluster by itself."""
    kernel: str
    """Linux of the Amazon Linux 2023 images, as `6.12`."""

    def support_on(self, day: date) -> Support:
        """Return the support on a day."""
        if day < self.standard_until:
            return Support.STANDARD
        return Support.EXTENDED if day < self.extended_until else Support.ENDED


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chart that the cluster root installs, or an operator that a stage applies from its sources."""

    name: str
    """The variable that installs it, as `efa_plugin`; of an operator, the name of its source."""
    title: str
    """Its name for people, at the begin of a sentence."""
    app: str
    """Version of the program."""
    chart: str = ""
    """Version of the Helm chart that brings it; empty for an operator."""
    kubernetes_min: str = ""
    kubernetes_max: str = ""
    """The newest version that it is made for, or that its authors test; empty if they name none."""
    kernel_max: str = ""
    """The newest Linux of nodes on which its mounts are known to work; empty if any is fine."""
    instance_types: frozenset[str] | None = None
    """Types on whose nodes its pods run. `None` if a label decides."""
    reads: tuple[str, ...] = ()
    """IAM actions beside those that its module allows."""

    def supports(self, version: str) -> bool:
        """Return true if it is made for a Kubernetes version."""
        low, high, found = minor(self.kubernetes_min), minor(self.kubernetes_max), minor(version)
        return not found or ((not low or low <= found) and (not high or found <= high))

    @property
    def bounds(self) -> str:
        """The range of Kubernetes versions: `1.24 to 1.35`, `1.27 and later`."""
        return f"{self.kubernetes_min} {f'to {self.kubernetes_max}' if self.kubernetes_max else 'and later'}"

    def runs_on(self, instance_type: str) -> bool:
        """Return true if its pods run on nodes of a type."""
        return self.instance_types is None or instance_type in self.instance_types


class AmiType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of node image, as EKS names it."""

    name: str
    accelerator: str
    """`gpu`, `neuron` or empty."""
    kubernetes_max: str = ""
    """The last version that has one; empty if all have."""

    def is_offered(self, version: str) -> bool:
        """Return true if there is an image for a Kubernetes version."""
        last, found = minor(self.kubernetes_max), minor(version)
        return not last or not found or found <= last


class VersionMatrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table."""

    as_of: date
    """The day on which its sources were read."""
    sources: dict[str, str]
    eks: tuple[EksVersion, ...]
    components: tuple[Component, ...]
    ami_types: tuple[AmiType, ...]
    forbidden_zone_ids: frozenset[str]
    """Zones, by id, in which EKS takes no subnet."""

    @classmethod
    def load(cls, path: Path | None = None) -> VersionMatrix:
        """Read the table at `path`, or the one that ships with the program.

        Raises:
            FormatError: It cannot be read, or is not one; the message has the place.
        """
        if path is None:
            return _shipped()
        try:
            return decode_json(read_file(path), cls)
        except (OSError, msgspec.MsgspecError) as error:
            raise FormatError(f"{path.name}: {error}.", hint="Install the package again.") from error

    def find(self, version: str) -> EksVersion | None:
        """The entry of `1.35`, also written `v1.35.2-eks-bb2d`; `None` for one that the table does not list."""
        return next((entry for entry in self.eks if minor(entry.version) == minor(version)), None)

    def support_of(self, version: str, day: date) -> Support:
        """Return the support of a version on a day. One that is newer than the table has standard support."""
        entry = self.find(version)
        if entry is not None:
            return entry.support_on(day)
        return Support.ENDED if minor(version) < minor(self.eks[0].version) else Support.STANDARD

    def newest_in_standard_support(self, day: date, parts: Collection[Component] = ()) -> EksVersion | None:
        """The newest version that is in standard support on a day, and declared for all `parts`; `None` without one."""
        for entry in reversed(self.eks):
            is_declared = not any(self.undeclared(part, entry.version) for part in parts)
            if entry.support_on(day) is Support.STANDARD and is_declared:
                return entry
        return None

    def undeclared(self, component: Component, version: str) -> str:
        """Return a sentence if it is not declared that a component works with a Kubernetes version; else empty."""
        entry, named = self.find(version), f"{component.title} {component.app}"
        if not component.supports(version):
            return (
                f"{named} with Kubernetes {version} is a pair that its authors do not declare; they name"
                f" {component.bounds}."
            )
        if entry is not None and component.kernel_max and minor(entry.kernel) > minor(component.kernel_max):
            return (
                f"{named} mounts by the kernel of the nodes, Linux {entry.kernel} with Kubernetes {version}; no mount"
                f" on one after {component.kernel_max} is known."
            )
        return ""

    def ami_type(self, name: str) -> AmiType | None:
        """The image type of a name; `None` if the table does not list it."""
        return next((entry for entry in self.ami_types if entry.name == name), None)


def support_price(version: str, day: date) -> str:
    """Return by which price a control plane of a Kubernetes version is paid on a day: `standard` or `extended`."""
    is_paid_more = VersionMatrix.load().support_of(version, day) in (Support.EXTENDED, Support.ENDED)
    return "extended" if is_paid_more else "standard"


@lru_cache(maxsize=256)
def minor(version: str) -> tuple[int, ...]:
    """Return `(1, 35)` of `1.35`, `v1.35.2-eks-bb2d`, `1.35+`; empty for what is not a version."""
    parts = version.strip().removeprefix("v").split(".")[:2]
    digits = ["".join(character for character in part if character in "0123456789") for part in parts]
    return tuple(map(int, digits)) if len(digits) == 2 and all(digits) else ()


@cache
def _shipped() -> VersionMatrix:
    return VersionMatrix.load(asset("versions/eks.json"))
