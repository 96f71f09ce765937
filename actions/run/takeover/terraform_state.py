"""The Terraform state of a rebuilt run: asked of its backend, or made whole from what the account has of the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actions.base.errors import ConsoleError, MissingError
from actions.base.untrusted import one_line
from actions.base.wording import listed
from actions.blueprint.operators import mirror_folder
from actions.blueprint.source_files import needs_account, root_folder
from actions.blueprint.stages import TerraformStage
from actions.blueprint.terraform_modules import archives_path, packages_path
from actions.cloud.aws_session import AwsSession, pages
from actions.cloud.leftovers import SearchScope, search_account
from actions.cloud.resources import parts_of
from actions.run.context.stage_context import StageContext
from actions.run.journal.folder import load_environment, terraform_path
from actions.run.stages.terraform import root_variables
from actions.run.stages.terraform_place import RootPlace
from actions.run.takeover.imports import (
    FoundResource,
    choose_ids,
    found_resource,
    import_blocks,
    not_rebuilt,
    read_planned,
)
from actions.run.teardown.audit import scope_of
from actions.terraform.driver import find_terraform
from actions.terraform.importing import StateImporter

_SHOWN = 8
_OF_NODES = "karpenter.sh/discovery"
"""The tag of the subnet in the zone of the nodes."""


class RebuiltState(msgspec.Struct, frozen=True):
    """The state of one stage's root, as far as it could be rebuilt."""

    outputs: Mapping[str, str] = {}
    source: str = ""
    """Its origin, as a clause; empty if there is none."""
    missing: tuple[str, ...] = ()
    """A sentence on each thing that is not in it."""


async def rebuilt_state(context: StageContext, found: tuple[FoundResource, ...]) -> RebuiltState:
    """Rebuild the state of a Terraform stage.

    Args:
        context: The stage's.
        found: Everything in the account that carries the run's tag.

    Raises:
        ConsoleError: Terraform cannot be started here, or can make no plan.
    """
    stage = context.declared(TerraformStage)
    if not needs_account(context.blueprint.folder, stage.root):
        return RebuiltState()  # its resources were in the lost state alone
    terraform = await _importer(context, stage)
    await terraform.init()
    if (await terraform.state()).addresses:
        return RebuiltState(await terraform.outputs(), f"the Terraform state of {stage.id} in its backend")
    variables = root_variables(context, context.view.account)
    done = await terraform.import_all(
        variables,
        choose=lambda shown: choose_ids(read_planned(shown), found),
        blocks=import_blocks,
        makes=lambda shown: tuple(item.address for item in not_rebuilt(read_planned(shown))),
    )
    missing = [
        f"Terraform {stage.id}: {address} was not imported: {one_line(why)}" for address, why in done.refused.items()
    ]
    if done.missing:
        names = listed(list(done.missing), _SHOWN)
        missing.append(
            f"Terraform {stage.id}: not found in the account, and not in the state: {names}. "
            f"If one exists: terraform -chdir={terraform_path(context.folder, stage.id)} import ADDRESS ID"
        )
    source = f"{len(done.imported)} resources of {stage.id} in the account" if done.imported else ""
    return RebuiltState(await terraform.outputs() if done.imported else {}, source, tuple(missing))


async def _importer(context: StageContext, stage: TerraformStage) -> StateImporter:
    program = find_terraform()
    if program is None:
        raise MissingError("The terraform program is not on PATH.", hint="Install Terraform 1.5 or later.")
    return StateImporter(
        root_folder(context.blueprint.folder, stage.root),
        terraform_path(context.folder, stage.id),
        load_environment(context.folder),
        program=program,
        clock=context.clock,
        modules=archives_path(context.folder),
        providers=packages_path(mirror_folder()),
        store=await RootPlace(context, stage.root, may_simulate=False).store(),
    )


async def tagged_resources(context: StageContext) -> tuple[tuple[FoundResource, ...], tuple[str, ...]]:
    """Search the account for everything that carries the run's tag, with what an import needs to know of it.

    Returns:
        The resources of kinds that shared roots make, and lines on the others, each with the command that removes it.

    Raises:
        ConsoleError: The account cannot be asked.
    """
    session = AwsSession(region=context.view.cluster.region, threads=2)
    try:
        scope = scope_of(context, region=await session.region(), owns_cluster=not context.view.existing_cluster)
        return await search_tagged(session, scope)
    finally:
        session.close()


async def zone_of_nodes(found: tuple[FoundResource, ...], *, region: str) -> str:
    """Return the zone that was chosen for a run's nodes, by the one subnet that the network root marks for them.

    Args:
        found: Everything in the account that carries the run's tag.
        region: Of the run's cluster.

    Returns:
        Empty if no subnet is marked, or several are.

    Raises:
        ConsoleError: The account cannot be asked.
    """
    marked = [one.import_id for one in found if one.kind == "aws_subnet" and _OF_NODES in one.tags]
    if len(marked) != 1:
        return ""
    session = AwsSession(region=region, threads=1)
    try:
        answer = await session.call("ec2", "describe_subnets", SubnetIds=marked)
    finally:
        session.close()
    zones = [str(subnet.get("AvailabilityZone") or "") for subnet in answer.get("Subnets") or ()]
    return one_line(zones[0]) if len(zones) == 1 else ""


async def search_tagged(session: AwsSession, scope: SearchScope) -> tuple[tuple[FoundResource, ...], tuple[str, ...]]:
    """Search for what carries a run's tag; see `tagged_resources`.

    Args:
        session: In the run's region.
        scope: The run's names.

    Raises:
        ConsoleError: The account cannot be asked.
    """
    result = await search_account(session, scope)
    tags = await _tags_by_arn(session, scope)
    mark = f"tagged {scope.tag}="
    found: list[FoundResource] = []
    marked = {one.arn for one in result.resources if one.reason.startswith(mark)}
    existing = {one.arn for one in result.resources}  # tags of deleted resources are listed for a while
    for arn in sorted(marked | (tags.keys() & existing)):
        known = found_resource(arn, tags.get(arn, {}), await _facts(session, arn))
        if known is not None:
            found.append(known)
    imported = {one.arn for one in found}
    others = [one for one in result.resources if one.arn not in imported]
    lines = [f"Not a resource of Terraform, or not certain to be the run's: {one.line()}" for one in others]
    return tuple(found), (*lines, *result.unknown)


async def _tags_by_arn(session: AwsSession, scope: SearchScope) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    wanted = [{"Key": scope.tag, "Values": [scope.run_id]}]
    async for answer in pages(session, "resourcegroupstaggingapi", "get_resources", TagFilters=wanted):
        for entry in answer.get("ResourceTagMappingList") or ():
            tags = {str(tag.get("Key")): str(tag.get("Value")) for tag in entry.get("Tags") or ()}
            found[one_line(str(entry.get("ResourceARN", "")))] = tags
    return found


async def _facts(session: AwsSession, arn: str) -> dict[str, Any]:
    """Return the properties of a resource, beside its ARN, that distinguish it from others; empty without an answer."""
    parts = parts_of(arn)
    asks: dict[tuple[str, str], Callable[[], Awaitable[dict[str, Any]]]] = {
        ("ec2", "launch-template"): lambda: _template(session, parts.name),
        ("ec2", "placement-group"): lambda: _placement_group(session, parts.name),
        ("ec2", "security-group-rule"): lambda: _group_rule(session, parts.name),
        ("eks", "access-entry"): lambda: _principal(arn),
        ("eks", "podidentityassociation"): lambda: _association(session, *parts.name.split("/")[:2]),
    }
    ask = asks.get((parts.service, parts.kind))
    if ask is None:
        return {}
    try:
        return await ask()
    except (ConsoleError, TypeError, KeyError, IndexError):
        return {}


async def _template(session: AwsSession, name: str) -> dict[str, Any]:
    answer = await session.call("ec2", "describe_launch_templates", LaunchTemplateIds=[name])
    return {"name": str(answer["LaunchTemplates"][0]["LaunchTemplateName"])}


async def _placement_group(session: AwsSession, name: str) -> dict[str, Any]:
    if not name.startswith("pg-"):
        return {"name": name}
    answer = await session.call("ec2", "describe_placement_groups", GroupIds=[name])
    return {"name": str(answer["PlacementGroups"][0]["GroupName"])}


async def _group_rule(session: AwsSession, name: str) -> dict[str, Any]:
    answer = await session.call("ec2", "describe_security_group_rules", SecurityGroupRuleIds=[name])
    rule = answer["SecurityGroupRules"][0]
    facts = {"from_port": rule.get("FromPort"), "to_port": rule.get("ToPort"), "cidr_ipv4": rule.get("CidrIpv4")}
    return {"is_egress": bool(rule["IsEgress"]), **{key: value for key, value in facts.items() if value is not None}}


async def _association(session: AwsSession, cluster: str, association: str) -> dict[str, Any]:
    answer = await session.call(
        "eks", "describe_pod_identity_association", clusterName=cluster, associationId=association
    )
    item = answer["association"]
    return {"namespace": str(item["namespace"]), "service_account": str(item["serviceAccount"])}


async def _principal(arn: str) -> dict[str, Any]:
    """Return the principal of an access entry: its ARN is `…:access-entry/CLUSTER/role/ACCOUNT/NAME/UUID`."""
    partition = arn.split(":")[1]
    _, kind, account, *path = parts_of(arn).name.split("/")
    return {"principal_arn": f"arn:{partition}:iam::{account}:{kind}/{'/'.join(path[:-1])}"}
