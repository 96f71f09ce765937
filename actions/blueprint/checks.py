"""The checks of a blueprint: before a stage that costs money starts, and of the log of a finished job.

`check` in the YAML picks the class, or `reads` for a log. The checks are carried out by `actions.run.stages.check`.
Texts may hold `${name}`; where an amount is a number, a text with `${name}` will do.
"""

from __future__ import annotations

from actions.blueprint.parts import Name, ObjectName, ParameterCondition, Part

Amount = int | str
"""A number, a Kubernetes quantity, or a text with `${name}`."""


class Check(Part, frozen=True, kw_only=True, tag_field="check", tag="check"):
    """A condition that must hold before a stage starts."""

    title: str
    hint: str = ""
    """The remedy if it does not hold, as an imperative."""
    is_required: bool = True
    """A check that is not required only warns."""
    when: ParameterCondition | None = None
    """Left out unless it holds."""
    existing_cluster_only: bool = False
    """Left out of a run that makes its own cluster: a stage of kind capacity has asked before anything was paid for."""


class PodsCheck(Check, frozen=True, kw_only=True, tag="pods"):
    """At least `at_least` pods match, and all that match are healthy."""

    namespace: str
    selector: str
    at_least: int = 1
    """0: none is fine, e.g. a DaemonSet that waits for its first node."""


class ObjectCheck(Check, frozen=True, kw_only=True, tag="object"):
    """An object is there and ready (bound, established, available)."""

    object: ObjectName


class NodesCheck(Check, frozen=True, kw_only=True, tag="nodes"):
    """At least `at_least` ready nodes match the selector, and each can give pods `amount` of `resource`."""

    selector: str = ""
    at_least: Amount = 1
    resource: str = ""
    """As in a node's allocatable: `vpc.amazonaws.com/efa`, `hugepages-2Mi`."""
    amount: Amount = 0


class VersionCheck(Check, frozen=True, kw_only=True, tag="version"):
    """The cluster's Kubernetes version is in a range."""

    minimum: str = ""
    """`1.29`; empty for no bound."""
    maximum: str = ""


class PoolCheck(Check, frozen=True, kw_only=True, tag="pool"):
    """Some Karpenter NodePool may start this instance type, or there are such nodes."""

    instance_type: str


class QuotaCheck(Check, frozen=True, kw_only=True, tag="quota"):
    """So much of the account's service quota is not in use yet. Unknown without AWS access."""

    service: str = "ec2"
    code: str
    """As Service Quotas has it, or the quota's name; of instances, that on demand: the one for spot follows from it."""
    amount: str
    """A number or `${name}`."""
    capacity_type: str = ""
    """`${name}`: the instances of a capacity block count for no quota. Empty: on demand."""
    reservation: str = ""
    """`${name}`: reserved instances count from the moment they are reserved. Empty for none."""


class SecretCheck(Check, frozen=True, kw_only=True, tag="secret"):
    """A secret parameter is given and can be read; on request, whether Hugging Face lets it read a repository.

    Unknown where huggingface.co cannot be reached.
    """

    parameter: Name
    huggingface: str = ""
    """Repository that the token must be able to read, e.g. `meta-llama/Llama-2-7b-hf`."""


class RegistryCheck(Check, frozen=True, kw_only=True, tag="registry"):
    """An image is in its registry and may be pulled. Unknown where the registry cannot be reached from here."""

    image: str
    login: Name = ""
    """Secret parameter with which the pods log in: a registry that requires a login then passes if it is given."""


class DiskCheck(Check, frozen=True, kw_only=True, tag="disk"):
    """So much is free on a volume. Looked up in a pod that mounts it, if need be one of our own."""

    claim: str
    mount: str
    """Mount path of the claim in the blueprint's pods."""
    free_gib: Amount


class FilesCheck(Check, frozen=True, kw_only=True, tag="files"):
    """So many files lie on a volume: data that the operator brought. Looked up as for `disk`."""

    claim: str
    mount: str
    folder: str
    """Below `mount`; may hold `${name}`."""
    pattern: str = "*"
    at_least: Amount = 1


ClusterCheck = PodsCheck | ObjectCheck | NodesCheck | VersionCheck | PoolCheck
"""The checks for which the cluster is queried."""
AnyCheck = ClusterCheck | QuotaCheck | SecretCheck | RegistryCheck | DiskCheck | FilesCheck


_LARGE = 128 << 20


class LogCheck(Part, frozen=True, kw_only=True, tag_field="reads", tag="verdict"):
    """A check of the log of a finished job."""

    hint: str = ""
    """The remedy if it fails, as an imperative."""


class AdapterLogCheck(LogCheck, frozen=True, kw_only=True, tag="efa"):
    """The list of `fi_info`: every rank sees so many EFA adapters."""

    ranks: Amount
    adapters: Amount


class BandwidthLogCheck(LogCheck, frozen=True, kw_only=True, tag="nccl"):
    """The table of nccl-tests: nothing is wrong, and large messages are as fast as on the same nodes elsewhere."""

    instance_type: str
    nodes: Amount
    ranks_per_node: Amount
    at_least_percent: Amount = 80
    """Percent of the reference's bus bandwidth, at each size from `from_bytes` on."""
    from_bytes: Amount = _LARGE


AnyLogCheck = AdapterLogCheck | BandwidthLogCheck
