"""Resource groups tagging answers: what in the sandbox's account carries a tag.

Source: botocore's service model `resourcegroupstaggingapi` (2017-01-26).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actions.sandbox.account import NodeGroups
from actions.sandbox.cloud.ec2 import SecurityGroups
from actions.sandbox.options import SandboxOptions

TAGGING_TARGET = "ResourceGroupsTaggingAPI_20170126.GetResources"


def tagged_resources(
    asked: Mapping[str, Any], groups: NodeGroups, rules: SecurityGroups, options: SandboxOptions
) -> dict[str, Any]:
    """`GetResources` with any tag filters; all of it on one page."""
    filters = [(str(entry["Key"]), entry.get("Values") or []) for entry in asked.get("TagFilters") or ()]
    found = [
        {"ResourceARN": arn, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        for arn, tags in _resources(groups, rules, options)
        if all(key in tags and (not values or tags[key] in values) for key, values in filters)
    ]
    return {"PaginationToken": "", "ResourceTagMappingList": found}


def _resources(
    groups: NodeGroups, rules: SecurityGroups, options: SandboxOptions
) -> Iterator[tuple[str, Mapping[str, str]]]:
    place = f"{options.region}:{options.account}"
    for group in groups:
        yield f"arn:aws:eks:{place}:nodegroup/{group.cluster}/{group.name}/sandbox", group.tags
    for rule in rules:
        yield f"arn:aws:ec2:{place}:security-group-rule/{rule.id}", rule.tags
