"""Terraform's imports of what a run has made: which object belongs to which address, and by which id. Pure.

A state that is lost with its disk is made whole by `import` blocks. What carries the run's tag in the account is
matched with the addresses that a plan would make; everything without tags of its own (attachments, routes, rules) is a
part of one of these, and its id follows from attributes that are known once that one is imported. Nothing is imported
by a name alone: another run's cluster may have it.

Forms of ids: hashicorp/aws 5.99, *Import* on the page of each resource; hashicorp/helm 2.17, `helm_release`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.cloud.resources import parts_of

Attributes = Mapping[str, Any]


class PlannedResource(msgspec.Struct, frozen=True):
    """A managed resource of a plan."""

    address: str
    kind: str
    """Terraform's type: `aws_vpc`."""
    actions: tuple[str, ...]
    after: Attributes
    """Attributes that are known before an apply."""
    is_imported: bool = False

    @property
    def is_made(self) -> bool:
        """True if an apply would make it."""
        return self.actions == ("create",)


class FoundResource(msgspec.Struct, frozen=True):
    """A resource of the account that carries the run's tag."""

    arn: str
    kind: str
    """Terraform's type."""
    import_id: str
    names: frozenset[str]
    """All by which others refer to it: id, ARN, name, URL."""
    tags: Mapping[str, str] = {}
    facts: Attributes = {}
    """Attributes by which it differs from others of its kind."""


class _PlannedChange(msgspec.Struct):
    actions: list[str] = []
    after: dict[str, Any] | None = None
    importing: dict[str, Any] | None = None


class _Change(msgspec.Struct):
    address: str
    type: str
    mode: str
    change: _PlannedChange


class _Plan(msgspec.Struct):
    resource_changes: list[_Change] = []


def read_planned(shown: bytes) -> list[PlannedResource]:
    """Read the managed resources of a plan, as `terraform show -json` prints it.

    Raises:
        FormatError: It is not a plan.
    """
    try:
        plan = decode_json(shown, _Plan)
    except msgspec.MsgspecError as error:
        raise FormatError("Terraform's plan cannot be read.", hint="Use Terraform 1.5 to 1.14.") from error
    return [
        PlannedResource(
            item.address,
            item.type,
            tuple(item.change.actions),
            item.change.after or {},
            is_imported=item.change.importing is not None,
        )
        for item in plan.resource_changes
        if item.mode == "managed"
    ]


class PartRule(msgspec.Struct, frozen=True):
    """The id of a resource without a tag of its own, from its attributes."""

    form: str
    """With `{attribute}` for each attribute; all of them have to be known."""
    parent: str
    """The attribute that names the resource that it is a part of."""
    parent_kinds: frozenset[str]


def _part(form: str, parent: str, *kinds: str) -> PartRule:
    return PartRule(form, parent, frozenset(kinds))


PARTS: Mapping[str, PartRule] = {
    "aws_cloudwatch_event_target": _part("{rule}/{target_id}", "rule", "aws_cloudwatch_event_rule"),
    "aws_ecr_lifecycle_policy": _part("{repository}", "repository", "aws_ecr_repository"),
    "aws_eks_access_policy_association": _part(
        "{cluster_name}#{principal_arn}#{policy_arn}", "principal_arn", "aws_eks_access_entry"
    ),
    "aws_iam_role_policy": _part("{role}:{name}", "role", "aws_iam_role"),
    "aws_iam_role_policy_attachment": _part("{role}/{policy_arn}", "role", "aws_iam_role"),
    "aws_kms_alias": _part("{name}", "target_key_id", "aws_kms_key"),
    "aws_route": _part("{route_table_id}_{destination_cidr_block}", "route_table_id", "aws_route_table"),
    "aws_route_table_association": _part("{subnet_id}/{route_table_id}", "route_table_id", "aws_route_table"),
    "aws_s3_bucket_public_access_block": _part("{bucket}", "bucket", "aws_s3_bucket"),
    "aws_sqs_queue_policy": _part("{queue_url}", "queue_url", "aws_sqs_queue"),
}
"""Rules by type. A rule of a security group (`aws_security_group_rule`) and `helm_release` are beside them."""
_RULE, _RELEASE, _CLUSTER = "aws_security_group_rule", "helm_release", "aws_eks_cluster"

_BY_ARN: Mapping[tuple[str, str], tuple[str, str]] = {
    ("ec2", "elastic-ip"): ("aws_eip", "{name}"),
    ("ec2", "internet-gateway"): ("aws_internet_gateway", "{name}"),
    ("ec2", "launch-template"): ("aws_launch_template", "{name}"),
    ("ec2", "natgateway"): ("aws_nat_gateway", "{name}"),
    ("ec2", "placement-group"): ("aws_placement_group", "{name}"),
    ("ec2", "route-table"): ("aws_route_table", "{name}"),
    ("ec2", "security-group"): ("aws_security_group", "{name}"),
    ("ec2", "subnet"): ("aws_subnet", "{name}"),
    ("ec2", "vpc"): ("aws_vpc", "{name}"),
    ("ec2", "vpc-endpoint"): ("aws_vpc_endpoint", "{name}"),
    ("ec2", "vpc-flow-log"): ("aws_flow_log", "{name}"),
    ("ecr", "repository"): ("aws_ecr_repository", "{name}"),
    ("eks", "access-entry"): ("aws_eks_access_entry", ""),
    ("eks", "addon"): ("aws_eks_addon", "{0}:{1}"),
    ("eks", "cluster"): (_CLUSTER, "{name}"),
    ("eks", "nodegroup"): ("aws_eks_node_group", "{0}:{1}"),
    ("eks", "podidentityassociation"): ("aws_eks_pod_identity_association", "{0},{1}"),
    ("events", "rule"): ("aws_cloudwatch_event_rule", "{name}"),
    ("fsx", "association"): ("aws_fsx_data_repository_association", "{-1}"),
    ("fsx", "file-system"): ("aws_fsx_lustre_file_system", "{name}"),
    ("iam", "oidc-provider"): ("aws_iam_openid_connect_provider", "{arn}"),
    ("iam", "policy"): ("aws_iam_policy", "{arn}"),
    ("iam", "role"): ("aws_iam_role", "{-1}"),
    ("kms", "key"): ("aws_kms_key", "{name}"),
    ("logs", "log-group"): ("aws_cloudwatch_log_group", "{name}"),
    ("s3", ""): ("aws_s3_bucket", "{name}"),
    ("sqs", ""): ("aws_sqs_queue", "https://sqs.{region}.amazonaws.com/{account}/{name}"),
}
"""Type and form of the id by service and kind of an ARN. `{0}` is the first part of its name, `{-1}` the last."""
_SG_RULE = ("ec2", "security-group-rule")
_DIRECTIONS = {True: "aws_vpc_security_group_egress_rule", False: "aws_vpc_security_group_ingress_rule"}

MADE_ANEW = frozenset(
    {
        "aws_default_network_acl",
        "aws_default_route_table",
        "aws_default_security_group",
        "null_resource",
        "terraform_data",
        "time_sleep",
    }
)
"""Types that are only in a state, or that take over what AWS itself has put into a network: an apply makes nothing."""
IMPORTED = frozenset({*(kind for kind, _ in _BY_ARN.values()), *PARTS, *_DIRECTIONS.values(), _RULE, _RELEASE})
"""Types that can be imported."""
_SUFFIX = "[0-9a-f]+"
"""The text that the provider puts behind a prefix, a time and a counter: one prefix may begin with another."""
_NAMES = ("name", "node_group_name", "bucket", "addon_name", "cluster_name")


def found_resource(arn: str, tags: Mapping[str, str], facts: Attributes | None = None) -> FoundResource | None:
    """Return a resource of the account in the form of an import; `None` for a kind that no shared root makes.

    Args:
        arn: Its ARN.
        tags: Its tags.
        facts: Attributes by which it differs from others of its kind, as `name`; for a rule of a security group
            `is_egress`, too.
    """
    parts, known = parts_of(arn), dict(facts or {})
    if (parts.service, parts.kind) == _SG_RULE and "is_egress" in known:
        kind = _DIRECTIONS[bool(known.pop("is_egress"))]
        return FoundResource(arn, kind, parts.name, frozenset({parts.name, arn}), tags, known)
    kind, form = _BY_ARN.get((parts.service, parts.kind), ("", ""))
    if kind == "aws_eks_access_entry":
        return _access_entry(arn, tags, known)
    if not kind:
        return None
    words = parts.name.split("/")
    values = {"name": parts.name, "arn": arn, "region": parts.region, "account": parts.account, "-1": words[-1]}
    if form.count("{0}") and len(words) < 2:
        return None
    if kind == "aws_placement_group" and "name" not in known:
        return None  # its ARN has the id or the name, and an import takes the name
    import_id = str(known["name"]) if kind == "aws_placement_group" else _filled(form, values, words)
    names = {import_id, arn, parts.name, words[-1], *(str(known[name]) for name in ("name",) if name in known)}
    own = {"name": words[-1]} if kind in _NAMED_BY_ARN else {}
    if kind == "aws_eks_node_group":
        own = {"cluster_name": words[0], "node_group_name": words[1]}
    elif kind == "aws_eks_addon":
        own = {"cluster_name": words[0], "addon_name": words[1]}
    elif kind == "aws_s3_bucket":
        own = {"bucket": parts.name}
    return FoundResource(arn, kind, import_id, frozenset(names), tags, {**own, **known})


_NAMED_BY_ARN = frozenset({"aws_iam_role", "aws_iam_policy", "aws_sqs_queue", "aws_cloudwatch_event_rule", _CLUSTER})


def _access_entry(arn: str, tags: Mapping[str, str], facts: Attributes) -> FoundResource | None:
    """Return an access entry: its ARN has the principal in parts, so that has to be among the facts."""
    cluster, principal = parts_of(arn).name.split("/")[0], str(facts.get("principal_arn") or "")
    if not principal:
        return None
    names = frozenset({arn, principal})
    return FoundResource(arn, "aws_eks_access_entry", f"{cluster}:{principal}", names, tags, facts)


def _filled(form: str, values: Mapping[str, str], words: Sequence[str]) -> str:
    text = form.replace("{0}", words[0]).replace("{1}", words[1] if len(words) > 1 else "")
    return re.sub(r"\{([a-z-][a-z0-9]*)\}", lambda match: values.get(match[1], ""), text)


def choose_ids(planned: Sequence[PlannedResource], found: Sequence[FoundResource]) -> dict[str, str]:
    """Return the id to import for each address that is certain: exactly one object fits, and that fits no other.

    Called again with the plan that these imports lead to: parts of what is imported then have known attributes.

    Args:
        planned: A plan, with the imports chosen so far.
        found: Everything in the account that carries the run's tag.
    """
    chosen: dict[str, str] = {}
    wanted = [item for item in planned if item.is_made]
    fitting = {item.address: [one for one in found if _fits(item, one)] for item in wanted}
    claims = Counter(one.arn for ones in fitting.values() for one in ones)
    for address, ones in fitting.items():
        if len(ones) == 1 and claims[ones[0].arn] == 1:
            chosen[address] = ones[0].import_id
    tracked = {item.kind for item in planned if item.is_imported or item.actions == ("no-op",)}
    for item in wanted:
        part = _part_id(item, found, has_cluster=_CLUSTER in tracked)
        if part:
            chosen.setdefault(item.address, part)
    return chosen


def _fits(item: PlannedResource, one: FoundResource) -> bool:
    """Return whether a planned resource may be this one, by type, name and what else is known of both."""
    if item.kind != one.kind:
        return False
    tags = item.after.get("tags") or {}
    if tags.get("Name") != one.tags.get("Name") and ("Name" in tags or one.kind == "aws_security_group"):
        return False
    return all(_agrees(item.after, key, value) for key, value in one.facts.items())


def _agrees(after: Attributes, key: str, value: object) -> bool:
    """Return whether a fact does not contradict the plan; a name may be planned as a prefix."""
    planned = after.get(key)
    if planned is not None:
        return bool(planned == value)
    prefix = after.get(f"{key}_prefix")
    return not isinstance(prefix, str) or bool(re.fullmatch(re.escape(prefix) + _SUFFIX, str(value)))


def _part_id(item: PlannedResource, found: Iterable[FoundResource], *, has_cluster: bool) -> str:
    """Return the id of a part of something that the run has made; empty if that, or the id, is not known."""
    if item.kind == _RULE:
        group = str(item.after.get("security_group_id") or "")
        return _rule_id(group, item.after) if _is_name_of(group, found, {"aws_security_group"}) else ""
    if item.kind == _RELEASE:
        return _form("{namespace}/{name}", item.after) if has_cluster else ""
    rule = PARTS.get(item.kind)
    if rule is None or not _is_name_of(str(item.after.get(rule.parent) or ""), found, rule.parent_kinds):
        return ""
    return _form(rule.form, item.after)


def _is_name_of(name: str, found: Iterable[FoundResource], kinds: Iterable[str]) -> bool:
    wanted = frozenset(kinds)
    return bool(name) and any(one.kind in wanted and name in one.names for one in found)


def _form(form: str, after: Attributes) -> str:
    names = re.findall(r"\{(\w+)\}", form)
    values = {name: after.get(name) for name in names}
    if not all(isinstance(value, str) and value for value in values.values()):
        return ""
    return form.format(**values)


def _rule_id(group: str, after: Attributes) -> str:
    """Return the id of a rule of a security group: `SG_ingress_tcp_443_443_SOURCE`, with all its sources."""
    protocol = str(after.get("protocol") or "")
    first, last = after.get("from_port"), after.get("to_port")
    lists = ("cidr_blocks", "ipv6_cidr_blocks", "prefix_list_ids")
    sources = ["self"] if after.get("self") else []
    sources += [str(value) for name in lists for value in after.get(name) or ()]
    sources += [str(after["source_security_group_id"])] if after.get("source_security_group_id") else []
    if not (protocol and sources and isinstance(first, int | float) and isinstance(last, int | float)):
        return ""
    words = [group, str(after.get("type")), "all" if protocol == "-1" else protocol]
    return "_".join([*words, f"{first:.0f}", f"{last:.0f}", *sources])


def import_blocks(ids: Mapping[str, str]) -> str:
    """Return the `import` blocks of a root, one for each address, in HCL.

    Args:
        ids: The provider's id by address.
    """
    return "".join(f"import {{\n  to = {address}\n  id = {quoted(text)}\n}}\n\n" for address, text in ids.items())


def quoted(text: str) -> str:
    """Return a text as a string of HCL, in which nothing is a template."""
    return msgspec.json.encode(text).decode().replace("${", "$${").replace("%{", "%%{")


def not_rebuilt(planned: Sequence[PlannedResource]) -> list[PlannedResource]:
    """Return what an apply of this plan would really make, replace or delete."""
    return [
        item
        for item in planned
        if ("create" in item.actions and item.kind not in MADE_ANEW) or "delete" in item.actions
    ]
