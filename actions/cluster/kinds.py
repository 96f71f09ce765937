"""The table of kinds: every Kubernetes kind that is read, named, watched, judged or waited for.

A new kind of job is one row here and one rule in `actions.cluster.objects.status_rules`.

Source: discovery of Kubernetes 1.34; the CRDs of training-operator 1.8.1 (PyTorchJob, TFJob, MPIJob `v1`), mpi-operator
0.8.0 (MPIJob `v2beta1`), KubeRay 1.1.1 (`v1alpha1` is still served), Volcano 1.15.1, Karpenter 0.32 (`v1beta1`) to 1.0,
Kueue (`v1beta2` from 0.15 on), JobSet 0.8, Kubeflow Trainer 2.0 (its reports are of 2.2), LeaderWorkerSet 0.6 and the
models of the HyperPod CLI. Tests compare it with those that are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actions.base.names import segment

LOST_UPDATE = "the object has been modified; please apply your changes to the latest version"
"""In the error of an update that came too late: the controller tries it again, and KubeRay says `failed` until then."""


class PodsAt(msgspec.Struct, frozen=True):
    """The place of a template of pods in an object, and the fields with their number.

    Args:
        template: Its path; `*` stands for each key of a mapping and each item of a list, whose name is the role.
        role: The role, where no name in the object is.
        counts: Fields beside it with the number; the first that is there counts.
        groups: The field with the number of its groups: beside the item of `*`, or a path.
        but_for: The path of a template that the first pod of each group is made of, if it is there.
        bounds: Fields with the least and the greatest number: beside it, or paths.
        least: As many as the job needs to run, of groups if there are some; `None` for all.
        is_container: It is not a template but like a container of one.
    """

    template: str
    role: str = ""
    counts: tuple[str, ...] = ("replicas",)
    groups: str = ""
    but_for: str = ""
    bounds: tuple[str, str] = ("", "")
    least: int | None = None
    is_container: bool = False


class KubeKind(msgspec.Struct, frozen=True):
    """One kind of object.

    Args:
        group: Its API group; empty for the core API.
        kind: Its name in manifests.
        plural: Its name in paths.
        versions: The versions in which clusters serve it, all read alike; the first is preferred.
        short_names: Those of kubectl.
        is_namespaced: Whether its objects are in namespaces.
        is_watched: Whether the live snapshot holds its objects and `watch` follows them.
        is_evidence: Whether a diagnosis lists it although it is not one of `JOBS`.
        is_shown: Whether `describe` and `yaml` print it.
        pod_owners: Kinds of the owners of its pods; empty where it owns them itself, or has none. One that is not
            watched has its name, perhaps with one part more.
        pods_from: The path of the name of the first of `pod_owners` in its status, where it does not own that object.
        pods_label: The label of its pods that has its name, where their template is another object's.
        lead: The role of the pods of a Job that it makes beside the others.
        report: The path of progress and metrics in its status.
        labels_pods: The label of its pods whose value is its name; empty where none is.
        wait_for: The `--for` of the `kubectl wait` that ends when such an object is ready or finished.
        suspended_by: The path of the field that ends its pods and keeps the object: a flag, or the replicas. Empty if
            there is none.
        suspending: The actions of Volcano's Commands that suspend and resume it, where no field does.
        pods: The templates of its pods.
    """

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...] = ("v1",)
    short_names: tuple[str, ...] = ()
    is_namespaced: bool = True
    is_watched: bool = False
    is_evidence: bool = False
    is_shown: bool = True
    pod_owners: tuple[str, ...] = ()
    pods_from: str = ""
    pods_label: str = ""
    lead: str = ""
    report: str = ""
    labels_pods: str = ""
    wait_for: str = "condition=Ready"
    suspended_by: str = ""
    suspending: tuple[str, ...] = ()
    pods: tuple[PodsAt, ...] = ()

    @property
    def name(self) -> str:
        """The name that no other row has: the kind, of Volcano's Job `Job.batch.volcano.sh`."""
        return full_name(self.api_version, self.kind)

    @property
    def api_version(self) -> str:
        """The preferred version, as in manifests: `v1`, `batch/v1`."""
        return self.api_versions[0]

    @property
    def api_versions(self) -> tuple[str, ...]:
        """Every version that is read, as in manifests."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)

    @property
    def ends(self) -> bool:
        """True if its objects end by themselves, and are not only ready."""
        return "omplete" in self.wait_for or "ucceeded" in self.wait_for

    def list_path(self, namespace: str = "") -> str:
        """Return the path of the list of one namespace, or of all.

        Raises:
            RefusedError: `namespace` cannot be a segment of a path.
        """
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        return f"{root}/namespaces/{segment(namespace)}/{self.plural}" if namespace else f"{root}/{self.plural}"


_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_SUCCEEDED = "condition=Succeeded"
_SUSPEND, _POLICY = "spec.suspend", "spec.runPolicy.suspend"
_JOB_NAME, _TRAINING_NAME = "batch.kubernetes.io/job-name", "training.kubeflow.org/job-name"
_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_TEMPLATE = "spec.template"
_PLAIN = (PodsAt(_TEMPLATE, least=1),)
_RAY_BOUNDS = ("minReplicas", "maxReplicas")
_OF_JOBS = PodsAt(
    "spec.replicatedJobs.*.template.spec.template", counts=("parallelism", "completions"), groups="replicas"
)
_LEADER = "spec.leaderWorkerTemplate.leaderTemplate"


def _of_ray(path: str) -> tuple[PodsAt, ...]:
    """The pods of a RayCluster."""
    return (
        PodsAt(f"{path}.headGroupSpec.template", "head", ()),
        PodsAt(f"{path}.workerGroupSpecs.*.template", counts=("replicas", *_RAY_BOUNDS), bounds=_RAY_BOUNDS, least=1),
    )


JOBS = (
    KubeKind(
        "batch",
        "Job",
        "jobs",
        is_watched=True,
        labels_pods=_JOB_NAME,
        wait_for="condition=Complete",
        suspended_by=_SUSPEND,
        pods=(PodsAt(_TEMPLATE, counts=("parallelism", "completions"), least=1),),
    ),
    KubeKind(
        "kubeflow.org",
        "PyTorchJob",
        "pytorchjobs",
        is_watched=True,
        labels_pods=_TRAINING_NAME,
        wait_for=_SUCCEEDED,
        suspended_by=_POLICY,
        pods=(
            PodsAt(
                "spec.pytorchReplicaSpecs.*.template",
                bounds=("spec.elasticPolicy.minReplicas", "spec.elasticPolicy.maxReplicas"),
            ),
        ),
    ),
    KubeKind(
        "kubeflow.org",
        "MPIJob",
        "mpijobs",
        ("v2beta1", "v1"),
        is_watched=True,
        pod_owners=("MPIJob", "Job"),
        lead="launcher",
        labels_pods=_TRAINING_NAME,
        wait_for=_SUCCEEDED,
        suspended_by=_POLICY,
        pods=(PodsAt("spec.mpiReplicaSpecs.*.template"),),
    ),
    KubeKind(
        "ray.io",
        "RayJob",
        "rayjobs",
        ("v1", "v1alpha1"),
        is_watched=True,
        pod_owners=("RayCluster", "Job"),
        pods_from="rayClusterName",
        lead="submitter",
        wait_for="jsonpath='{.status.jobDeploymentStatus}'=Complete",
        suspended_by=_SUSPEND,
        pods=(*_of_ray("spec.rayClusterSpec"), PodsAt("spec.submitterPodTemplate", "submitter", ())),
    ),
    KubeKind(
        "ray.io",
        "RayCluster",
        "rayclusters",
        ("v1", "v1alpha1"),
        is_watched=True,
        labels_pods="ray.io/cluster",
        wait_for="jsonpath='{.status.state}'=ready",
        suspended_by=_SUSPEND,
        pods=_of_ray("spec"),
    ),
    KubeKind(
        "kubeflow.org",
        "TFJob",
        "tfjobs",
        is_watched=True,
        labels_pods=_TRAINING_NAME,
        wait_for=_SUCCEEDED,
        suspended_by=_POLICY,
        pods=(PodsAt("spec.tfReplicaSpecs.*.template"),),
    ),
    KubeKind(
        "trainer.kubeflow.org",
        "TrainJob",
        "trainjobs",
        ("v1alpha1",),
        is_watched=True,
        pod_owners=("Job",),  # of the JobSet that it makes, which has its name
        pods_label="jobset.sigs.k8s.io/jobset-name",
        report="trainerStatus",
        labels_pods=_JOBSET_NAME,
        wait_for="condition=Complete",
        suspended_by=_SUSPEND,
        pods=(_OF_JOBS, PodsAt("spec.trainer", "worker", ("numNodes",), is_container=True)),
    ),
    KubeKind(
        "jobset.x-k8s.io",
        "JobSet",
        "jobsets",
        ("v1alpha2",),
        is_watched=True,
        pod_owners=("Job",),
        labels_pods=_JOBSET_NAME,
        wait_for="condition=Completed",
        suspended_by=_SUSPEND,
        pods=(_OF_JOBS,),
    ),
    KubeKind(
        "batch.volcano.sh",
        "Job",
        "jobs",
        ("v1alpha1",),
        ("vcjob", "vj"),
        is_watched=True,
        labels_pods="volcano.sh/job-name",
        wait_for="jsonpath='{.status.state.phase}'=Completed",
        suspending=("AbortJob", "ResumeJob"),
        pods=(PodsAt("spec.tasks.*.template", bounds=("minAvailable", "")),),
    ),
    KubeKind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        "leaderworkersets",
        short_names=("lws",),
        is_watched=True,
        pod_owners=("StatefulSet",),
        labels_pods="leaderworkerset.sigs.k8s.io/name",
        wait_for="condition=Available",
        suspended_by="spec.replicas",
        pods=(
            PodsAt(_LEADER, "leader", (), groups="spec.replicas", least=1),
            PodsAt("spec.leaderWorkerTemplate.workerTemplate", "worker", ("size",), "spec.replicas", _LEADER, least=1),
        ),
    ),
    KubeKind(
        "sagemaker.amazonaws.com",
        "HyperPodPyTorchJob",
        "hyperpodpytorchjobs",
        is_watched=True,
        pod_owners=("StatefulSet",),
        pods_from="jobPods.name",
        wait_for="condition=Complete",
        suspended_by=_POLICY,
        pods=(PodsAt("spec.replicaSpecs.*.template"),),
    ),
)
"""Work that runs on pods. A diagnosis lists all of it."""

_OTHERS = (
    KubeKind("", "Pod", "pods", short_names=("po",), is_evidence=True),
    KubeKind("", "Node", "nodes", short_names=("no",), is_namespaced=False, is_evidence=True),
    KubeKind("", "Event", "events", short_names=("ev",), is_evidence=True),
    KubeKind(
        "",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short_names=("pvc",),
        is_evidence=True,
        wait_for="jsonpath='{.status.phase}'=Bound",
    ),
    KubeKind("", "PersistentVolume", "persistentvolumes", short_names=("pv",), is_namespaced=False),
    KubeKind("", "Namespace", "namespaces", short_names=("ns",), is_namespaced=False, is_evidence=True),
    KubeKind("", "Service", "services", short_names=("svc",)),
    KubeKind("", "ServiceAccount", "serviceaccounts", short_names=("sa",)),
    KubeKind("", "ConfigMap", "configmaps", short_names=("cm",)),
    KubeKind("", "Secret", "secrets", is_shown=False),
    KubeKind(
        "apps",
        "Deployment",
        "deployments",
        short_names=("deploy",),
        is_watched=True,
        pod_owners=("ReplicaSet",),
        wait_for="condition=Available",
        suspended_by="spec.replicas",
        pods=_PLAIN,
    ),
    KubeKind("apps", "ReplicaSet", "replicasets", short_names=("rs",), pods=_PLAIN),
    KubeKind("apps", "StatefulSet", "statefulsets", short_names=("sts",), suspended_by="spec.replicas", pods=_PLAIN),
    KubeKind("apps", "DaemonSet", "daemonsets", short_names=("ds",), pods=_PLAIN),
    KubeKind("storage.k8s.io", "StorageClass", "storageclasses", short_names=("sc",), is_namespaced=False),
    KubeKind("scheduling.k8s.io", "PriorityClass", "priorityclasses", short_names=("pc",), is_namespaced=False),
    KubeKind(_RBAC, "Role", "roles"),
    KubeKind(_RBAC, "RoleBinding", "rolebindings"),
    KubeKind(_RBAC, "ClusterRole", "clusterroles", is_namespaced=False),
    KubeKind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", is_namespaced=False),
    KubeKind(_ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", is_namespaced=False),
    KubeKind(_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", is_namespaced=False),
    KubeKind("apiregistration.k8s.io", "APIService", "apiservices", is_namespaced=False),
    KubeKind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        short_names=("crd", "crds"),
        is_namespaced=False,
        wait_for="condition=Established",
    ),
    KubeKind("karpenter.sh", "NodeClaim", "nodeclaims", ("v1", "v1beta1"), is_namespaced=False, is_evidence=True),
    KubeKind("karpenter.sh", "NodePool", "nodepools", is_namespaced=False, is_evidence=True),
    KubeKind(
        "karpenter.k8s.aws",
        "EC2NodeClass",
        "ec2nodeclasses",
        short_names=("ec2nc", "ec2ncs"),
        is_namespaced=False,
        is_evidence=True,
    ),
    KubeKind(
        "trainer.kubeflow.org",
        "ClusterTrainingRuntime",
        "clustertrainingruntimes",
        ("v1alpha1",),
        is_namespaced=False,
    ),
    KubeKind(
        "scheduling.volcano.sh",
        "PodGroup",
        "podgroups",
        ("v1beta1",),
        ("pg", "podgroup-v1beta1"),
        is_evidence=True,
    ),
    KubeKind("scheduling.volcano.sh", "Queue", "queues", ("v1beta1",), ("q", "queue-v1beta1"), is_namespaced=False),
    KubeKind(
        "resource.k8s.io",
        "ResourceSlice",
        "resourceslices",
        ("v1", "v1beta2", "v1beta1"),
        is_namespaced=False,
        is_evidence=True,
    ),
    KubeKind("resource.k8s.io", "ResourceClaim", "resourceclaims", ("v1", "v1beta2", "v1beta1")),
    KubeKind("kueue.x-k8s.io", "Workload", "workloads", ("v1beta1", "v1beta2"), ("wl",), is_evidence=True),
    KubeKind("kueue.x-k8s.io", "LocalQueue", "localqueues", ("v1beta1", "v1beta2")),
    KubeKind("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", ("v1beta1", "v1beta2"), ("cq",), is_namespaced=False),
    KubeKind("kueue.x-k8s.io", "Cohort", "cohorts", ("v1beta1", "v1beta2"), is_namespaced=False),
)
KINDS = (*JOBS, *_OTHERS)
"""Every row. Where two groups have a kind of the same name, the one that is meant by the bare name is first."""

WATCHED = tuple(row for row in KINDS if row.is_watched)
"""The jobs of the live snapshot."""

EVIDENCE = (*JOBS, *(row for row in _OTHERS if row.is_evidence))
"""Everything that a diagnosis lists."""

_USUAL = {row.kind: row for row in reversed(KINDS)}
_BY_GROUP = {(row.group, row.kind): row for row in KINDS}
_BY_PLURAL = {(row.group, row.plural): row for row in KINDS}
_BY_WORD = {word: row for row in reversed(KINDS) for word in (row.kind.lower(), *row.short_names)}


def full_name(api_version: str, kind: str) -> str:
    """Return the name of a kind: `Job`, but `Job.batch.volcano.sh`, as the usual kind of that name is another one."""
    usual = _USUAL.get(kind)
    group = _group_of(api_version)
    return f"{kind}.{group}" if usual is not None and group and group != usual.group else kind


def name_of_kind(reference: Mapping[str, object]) -> str:
    """Return the full name of the kind of an object, or of what refers to one, by its `apiVersion` and `kind`."""
    return full_name(str(reference.get("apiVersion") or ""), str(reference.get("kind") or ""))


def find_kind(kind: str, group: str | None = None) -> KubeKind | None:
    """Return the row of a kind by its full name, or by its name in manifests and its group; `None` if it has none."""
    return _BY_NAME.get(kind) if group is None else _BY_GROUP.get((group, kind))


def kind_of(kind: str) -> KubeKind:
    """Return the row of a kind that has one.

    Raises:
        KeyError: It has none.
    """
    return _BY_NAME[kind]


def find_word(word: str) -> KubeKind | None:
    """Return the row of a kind as people type it: `pvc`, `PyTorchJob`, or `job.batch` as `kubectl … -o name` prints it.

    Plurals are left out, as people call namespaces `jobs` and `services`; no namespace has a dot in its name.
    """
    name, _, group = word.lower().partition(".")
    row = _BY_WORD.get(name)
    if row is None or not group or row.group == group:
        return row
    return next((other for other in KINDS if (other.kind.lower(), other.group) == (name, group)), None)


def is_watched_kind(kind: str) -> bool:
    """Return whether jobs of that name are in the live snapshot."""
    return kind in _WATCHED_NAMES


def watched_names() -> str:
    """The jobs that can be watched, for sentences: `Job, PyTorchJob, …`."""
    return ", ".join(row.name for row in WATCHED)


def is_namespaced(api_version: str, kind: str) -> bool:
    """Return whether objects of the kind are in namespaces, as those of most kinds are that have no row."""
    row = _find_versioned(api_version, kind)
    return row is None or row.is_namespaced


def wait_for(api_version: str, kind: str) -> str:
    """Return the `--for` of the `kubectl wait` that ends when an object of the kind is ready or finished."""
    row = _find_versioned(api_version, kind)
    return row.wait_for if row is not None else "condition=Ready"


def other_versions(api_version: str, kind: str) -> tuple[str, ...]:
    """Return the `apiVersion`s besides this one in which objects of the kind may be read."""
    row = find_kind(kind, _group_of(api_version))
    return tuple(other for other in row.api_versions if other != api_version) if row is not None else ()


def other_paths(path: str) -> tuple[str, ...]:
    """Return the list paths besides this one at which the same objects may be found."""
    parts = path.split("/")
    if len(parts) < 5 or parts[1] != "apis":
        return ()
    row = _BY_PLURAL.get((parts[2], parts[-1]))
    others = (version for version in row.versions if version != parts[3]) if row is not None else ()
    return tuple("/".join([*parts[:3], other, *parts[4:]]) for other in others)


def _find_versioned(api_version: str, kind: str) -> KubeKind | None:
    """Return the row of a kind as a manifest names it; that of the same name in another group if it has none."""
    return find_kind(kind, _group_of(api_version)) or find_kind(kind)


def _group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


_BY_NAME = {row.name: row for row in KINDS}
JOB_NAMES = frozenset(row.name for row in JOBS)
_WATCHED_NAMES = frozenset(row.name for row in WATCHED)
