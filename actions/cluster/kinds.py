"""Versions in which clusters still serve what the console reads: all of them are read alike.

Source: Karpenter 0.32 to 1.0 (`v1beta1`), the training-operator's own MPIJob (`v1`), KubeRay before 1.0 (`v1alpha1`),
Kueue from 0.15 on (`v1beta2`).
"""

from __future__ import annotations

_SERVED = {
    ("karpenter.sh", "NodeClaim", "nodeclaims"): ("v1", "v1beta1"),
    ("kubeflow.org", "MPIJob", "mpijobs"): ("v2beta1", "v1"),
    ("ray.io", "RayJob", "rayjobs"): ("v1", "v1alpha1"),
    ("ray.io", "RayCluster", "rayclusters"): ("v1", "v1alpha1"),
    ("kueue.x-k8s.io", "Workload", "workloads"): ("v1beta1", "v1beta2"),
}
_BY_KIND = {(group, kind): versions for (group, kind, _), versions in _SERVED.items()}
_BY_PLURAL = {(group, plural): versions for (group, _, plural), versions in _SERVED.items()}


def other_versions(api_version: str, kind: str) -> tuple[str, ...]:
    """The `apiVersion`s besides this one in which objects of the kind may be read."""
    group, _, version = api_version.rpartition("/")
    return tuple(f"{group}/{other}" for other in _BY_KIND.get((group, kind), ()) if other != version)


def other_paths(path: str) -> tuple[str, ...]:
    """The list paths besides this one at which the same objects may be found."""
    parts = path.split("/")
    if len(parts) < 5 or parts[1] != "apis":
        return ()
    others = (other for other in _BY_PLURAL.get((parts[2], parts[-1]), ()) if other != parts[3])
    return tuple("/".join([*parts[:3], other, *parts[4:]]) for other in others)
