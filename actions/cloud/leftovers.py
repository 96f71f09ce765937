"""The search of an AWS account for what a run has left: by tags, by the network, and by names.

Tags find what carries them, in the run's region, except IAM's roles. A resource that was made for the cluster by others
than Terraform has the cluster's tags: `kubernetes.io/cluster/NAME` (EKS, Karpenter, CSI drivers, load balancers),
`cluster.k8s.amazonaws.com/name` (interfaces of the VPC CNI), `elbv2.k8s.aws/cluster`. What never was tagged is found in
the run's VPC (interfaces, endpoints such as GuardDuty's, security groups) or by its name (IAM, log groups, ECR).

Sources: Karpenter `pkg/apis/v1/ec2nodeclass.go` at v1.2.1 (tags and names of instance profiles); amazon-vpc-cni-k8s
`pkg/awsutils` (tags of interfaces); aws-load-balancer-controller, *Resource tags*; EKS user guide, *Control plane
logs*; names of roles: terraform-aws-eks 20.37 and the project's roots.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.errors import FormatError, MissingError, RefusedError, UnreachableError
from actions.base.untrusted import one_line
from actions.cloud.account import fetch_identity, fetch_tagged
from actions.cloud.aws_session import AwsSession, MissingPermissionError, pages
from actions.cloud.describe import ResourceDescriber
from actions.cloud.resources import AwsResource, parts_of

POOL_TAG = "karpenter.sh/nodepool"
CLUSTER_TAG = "kubernetes.io/cluster/"
_TAGS_OF_CLUSTER = ("cluster.k8s.amazonaws.com/name", "elbv2.k8s.aws/cluster", "eks:cluster-name")
_NETWORK_KINDS = frozenset({"internet-gateway", "natgateway", "route-table", "subnet", "vpc"})
_SKEW_SECONDS = 300.0
_OPEN_STATES = ["pending", "running", "stopping", "stopped", "shutting-down"]
_OWNED_INTERFACES = frozenset({"gateway_load_balancer_endpoint", "nat_gateway", "vpc_endpoint"})
"""Kinds of interfaces that go with a gateway or endpoint, which is found itself."""
_GENERIC_ROLES = ("KarpenterController-", "core-eks-node-group-")
"""Beginnings of names that terraform-aws-eks gives whatever the cluster is called."""


class SearchScope(msgspec.Struct, frozen=True):
    """The names by which a run's resources are found."""

    tag: str
    """The key of the tag that Terraform gives everything."""
    run_id: str
    """Its value."""
    since: float
    """Creation of the run, in seconds since the epoch: what only has its names, and is older, is not its own."""
    region: str
    cluster: str
    owns_cluster: bool
    """The run has made the cluster: everything that belongs to it is the run's."""
    vpc: str = ""
    """Id of the VPC that the run has made; empty if it has made none, or its id is unknown."""
    pools: tuple[str, ...] = ()
    """Names of the Karpenter pools that the run has made."""
    repositories: tuple[str, ...] = ()
    """Names of ECR repositories that the run has made."""


class SearchResult(msgspec.Struct, frozen=True):
    """The resources that were found, the most expensive first, and the questions that could not be asked."""

    resources: tuple[AwsResource, ...] = ()
    unknown: tuple[str, ...] = ()
    """One sentence each, with the missing right."""


async def search_account(session: AwsSession, scope: SearchScope) -> SearchResult:
    """Search for everything that belongs to a run. A right that is missing makes one question unknown, and no other.

    Args:
        session: In the run's region.
        scope: The run's names.

    Raises:
        AccessError: There are no valid credentials.
        UnreachableError: No answer.
    """
    identity = await fetch_identity(session)
    search = _Search(session, scope, account=identity.account, partition=identity.arn.partition(":")[2].split(":")[0])
    for subject, ask in search.questions():
        try:
            search.take(await ask())
        except MissingError:
            continue  # it went while it was asked for
        except _ONE_QUESTION as error:
            search.unknown.append(f"{subject} could not be searched: {error.message}")
    found = sorted(search.found.values(), key=lambda one: (-(one.usd_per_hour or 0), one.arn))
    return SearchResult(tuple(found), tuple(search.unknown))


_ONE_QUESTION = (MissingPermissionError, RefusedError, FormatError, UnreachableError)
"""Errors that make one question unknown. AWS has answered before, and the credentials are valid."""
Answer = Awaitable[Iterable[AwsResource]]
IamEntry = tuple[Mapping[str, Any], str]
"""An entry of one of IAM's lists, and its name."""


class _Search:
    """One search. `found` is by ARN, `unknown` the sentences on what could not be asked."""

    def __init__(self, session: AwsSession, scope: SearchScope, *, account: str, partition: str) -> None:
        self.found: dict[str, AwsResource] = {}
        self.unknown: list[str] = []
        self._session = session
        self._scope = scope
        self._account = account
        self._partition = partition or "aws"
        self._describer = ResourceDescriber(session, region=scope.region, account=account, partition=self._partition)

    def questions(self) -> list[tuple[str, Callable[[], Answer]]]:
        """Return the questions that the scope allows, each with its subject; the most specific evidence first."""
        scope = self._scope
        asked: list[tuple[str, Callable[[], Answer]]] = []
        if scope.owns_cluster:
            asked.append((f"Resources of the cluster {scope.cluster}", self._of_cluster))
            asked.append((f"Log groups of the cluster {scope.cluster}", self._log_groups))
            asked += [
                ("IAM roles", self._roles),
                ("IAM policies", self._policies),
                ("IAM instance profiles", self._instance_profiles),
                ("IAM OIDC providers", self._oidc_providers),
            ]
        elif scope.pools:
            asked.append(("Instances of the run's Karpenter pools", self._of_pools))
            asked.append(("IAM instance profiles", self._instance_profiles))
        asked.append(("Resources with the run's tag", self._tagged))
        if scope.repositories:
            asked.append(("ECR repositories", self._repositories))
        if scope.vpc:
            asked += [
                (f"The VPC {scope.vpc}", self._vpc),
                (f"NAT gateways in {scope.vpc}", self._nat_gateways),
                (f"Endpoints in {scope.vpc}", self._endpoints),
                (f"Network interfaces in {scope.vpc}", self._interfaces),
                (f"Security groups in {scope.vpc}", self._groups),
                (f"Instances in {scope.vpc}", self._instances),
            ]
        return asked

    def take(self, resources: Iterable[AwsResource]) -> None:
        """Keep resources that no earlier question has found."""
        for one in resources:
            self.found.setdefault(one.arn, one)

    async def _of_cluster(self) -> list[AwsResource]:
        name = self._scope.cluster
        found = await self._with_tags({CLUSTER_TAG + name: ()}, is_of_cluster=True)
        for tag in _TAGS_OF_CLUSTER:
            found += await self._with_tags({tag: (name,)}, is_of_cluster=True)
        return found

    async def _of_pools(self) -> list[AwsResource]:
        tags = {POOL_TAG: self._scope.pools, CLUSTER_TAG + self._scope.cluster: ()}
        return await self._with_tags(tags, is_of_cluster=True)

    async def _tagged(self) -> list[AwsResource]:
        return await self._with_tags({self._scope.tag: (self._scope.run_id,)}, is_of_cluster=False)

    async def _with_tags(self, tags: Mapping[str, Sequence[str]], *, is_of_cluster: bool) -> list[AwsResource]:
        """Return what carries the tags and still exists."""
        key = next(iter(tags))
        reason = f"tagged {key}={','.join(tags[key])}" if tags[key] else f"tagged {key}"
        found = []
        for arn in await fetch_tagged(self._session, tags):
            if arn in self.found:
                continue
            try:
                resource = await self._describer.describe(arn, reason)
            except _ONE_QUESTION as error:
                self.unknown.append(f"It is unknown whether {arn} still exists: {error.message}")
                continue
            if resource is not None:
                of_cluster = is_of_cluster and parts_of(arn).kind not in _NETWORK_KINDS
                found.append(replace(resource, is_of_cluster=of_cluster))
        return found

    async def _log_groups(self) -> list[AwsResource]:
        found = []
        for prefix in (f"/aws/eks/{self._scope.cluster}/", f"/aws/containerinsights/{self._scope.cluster}/"):
            groups = pages(self._session, "logs", "describe_log_groups", logGroupNamePrefix=prefix)
            for group in await _listed(groups, "logGroups"):
                name = one_line(str(group.get("logGroupName", "")))
                arn = self._arn("logs", f"log-group:{name}")
                made = float(group.get("creationTime") or 0) / 1000
                stored = int(group.get("storedBytes") or 0)
                found.append(self._named(arn, f"named like the cluster {self._scope.cluster}", made, f"{stored} bytes"))
        return found

    async def _repositories(self) -> list[AwsResource]:
        found = []
        for name in self._scope.repositories:
            try:
                answer = await self._session.call("ecr", "describe_repositories", repositoryNames=[name])
            except MissingError:
                continue
            for entry in answer.get("repositories") or ():
                arn, made = one_line(str(entry.get("repositoryArn", ""))), _seconds(entry.get("createdAt"))
                named = AwsResource(arn, "named by the run", is_older=self._is_older(made))
                found.append(await self._describer.repository(named))
        return found

    async def _roles(self) -> list[AwsResource]:
        async def tags(name: str) -> Any:
            return await _listed(pages(self._session, "iam", "list_role_tags", RoleName=name), "Tags")

        found: list[IamEntry] = []
        async for answer in pages(self._session, "iam", "list_roles"):
            found += [(entry, str(entry.get("RoleName", ""))) for entry in answer.get("Roles") or ()]
        return await self._ours("role", found, tags)

    async def _policies(self) -> list[AwsResource]:
        async def tags(name: str) -> Any:
            return await _listed(pages(self._session, "iam", "list_policy_tags", PolicyArn=arns[name]), "Tags")

        found: list[IamEntry] = []
        async for answer in pages(self._session, "iam", "list_policies", Scope="Local"):
            found += [(entry, str(entry.get("PolicyName", ""))) for entry in answer.get("Policies") or ()]
        arns = {name: str(entry.get("Arn", "")) for entry, name in found}
        return await self._ours("policy", found, tags)

    async def _instance_profiles(self) -> list[AwsResource]:
        async def tags(name: str) -> Any:
            answer = await self._session.call("iam", "get_instance_profile", InstanceProfileName=name)
            return (answer.get("InstanceProfile") or {}).get("Tags")

        found: list[IamEntry] = []
        async for answer in pages(self._session, "iam", "list_instance_profiles"):
            listed = answer.get("InstanceProfiles") or ()
            found += [(entry, str(entry.get("InstanceProfileName", ""))) for entry in listed]
        return await self._ours("instance profile", found, tags)

    async def _oidc_providers(self) -> list[AwsResource]:
        answer = await self._session.call("iam", "list_open_id_connect_providers")
        found = []
        for entry in answer.get("OpenIDConnectProviderList") or ():
            arn = str(entry.get("Arn", ""))
            if f"/oidc.eks.{self._scope.region}." not in arn:
                continue
            try:
                listed = await self._session.call(
                    "iam", "list_open_id_connect_provider_tags", OpenIDConnectProviderArn=arn
                )
            except MissingError:
                continue
            if _tags_of(listed.get("Tags")).get(self._scope.tag) == self._scope.run_id:
                reason = f"tagged {self._scope.tag}={self._scope.run_id}"
                found.append(AwsResource(one_line(arn), reason, is_of_cluster=True))
        return found

    async def _ours(
        self, kind: str, entries: Iterable[IamEntry], fetch_tags: Callable[[str], Awaitable[Any]]
    ) -> list[AwsResource]:
        """Return the entries of IAM that are the run's: tagged with it, or named like its cluster and not tagged.

        Names are global, and a cluster of the same name may exist in another region: of entries without our tag only
        those count that are as young as the run.
        """
        scope = self._scope
        named = re.compile(rf"{re.escape(scope.cluster)}(-(cluster|export|node)(-.*)?|_\d+)", re.DOTALL)
        found = []
        for entry, name in entries:
            if not (name.startswith((*_GENERIC_ROLES, f"{scope.cluster}-")) or named.fullmatch(name)):
                continue
            try:
                tag = _tags_of(await fetch_tags(name)).get(scope.tag, "")
            except MissingError:
                continue
            made = _seconds(entry.get("CreateDate"))
            arn = one_line(str(entry.get("Arn", "")))
            if tag == scope.run_id:
                found.append(AwsResource(arn, f"tagged {scope.tag}={scope.run_id}", is_of_cluster=True))
            elif not tag and scope.owns_cluster and named.fullmatch(name) and not self._is_older(made):
                found.append(self._named(arn, f"{kind} named like the cluster {scope.cluster}", made))
        return found

    async def _vpc(self) -> list[AwsResource]:
        found = await _listed(pages(self._session, "ec2", "describe_vpcs", Filters=self._in_vpc()), "Vpcs")
        return [self._inside("vpc", str(item["VpcId"]), "the run's VPC") for item in found]

    async def _nat_gateways(self) -> list[AwsResource]:
        found = await _listed(
            pages(self._session, "ec2", "describe_nat_gateways", Filter=self._in_vpc()), "NatGateways"
        )
        items = [item for item in found if item.get("State") != "deleted"]
        return [self._inside("natgateway", str(item["NatGatewayId"])) for item in items]

    async def _endpoints(self) -> list[AwsResource]:
        asked = pages(self._session, "ec2", "describe_vpc_endpoints", Filters=self._in_vpc())
        items = [item for item in await _listed(asked, "VpcEndpoints") if item.get("State") != "deleted"]
        return [self._describer.endpoint(item, f"in {self._scope.vpc}") for item in items]

    async def _interfaces(self) -> list[AwsResource]:
        asked = pages(self._session, "ec2", "describe_network_interfaces", Filters=self._in_vpc())
        return [
            replace(self._inside("network-interface", str(item["NetworkInterfaceId"])), note=_used_by(item))
            for item in await _listed(asked, "NetworkInterfaces")
            if not (item.get("Attachment") or {}).get("InstanceId")
            and item.get("InterfaceType") not in _OWNED_INTERFACES
        ]

    async def _groups(self) -> list[AwsResource]:
        asked = pages(self._session, "ec2", "describe_security_groups", Filters=self._in_vpc())
        return [
            replace(self._inside("security-group", str(item["GroupId"])), note=one_line(str(item["GroupName"])))
            for item in await _listed(asked, "SecurityGroups")
            if item.get("GroupName") != "default"  # it goes with the VPC
        ]

    async def _instances(self) -> list[AwsResource]:
        states = {"Name": "instance-state-name", "Values": _OPEN_STATES}
        asked = pages(self._session, "ec2", "describe_instances", Filters=[*self._in_vpc(), states])
        items = [item for group in await _listed(asked, "Reservations") for item in group.get("Instances") or ()]
        return [self._describer.instance(item, f"in {self._scope.vpc}") for item in items]

    def _in_vpc(self) -> list[dict[str, object]]:
        return [{"Name": "vpc-id", "Values": [self._scope.vpc]}]

    def _inside(self, kind: str, name: str, reason: str = "") -> AwsResource:
        arn = self._arn("ec2", f"{kind}/{one_line(name)}")
        return self._describer.priced(AwsResource(arn, reason or f"in {self._scope.vpc}"))

    def _arn(self, service: str, resource: str) -> str:
        return f"arn:{self._partition}:{service}:{self._scope.region}:{self._account}:{resource}"

    def _named(self, arn: str, reason: str, made: float, note: str = "") -> AwsResource:
        """Return a resource of which only the name connects it with the run."""
        return AwsResource(arn, reason, note=note, is_of_cluster=True, is_older=self._is_older(made))

    def _is_older(self, made: float) -> bool:
        return made < self._scope.since - _SKEW_SECONDS


async def _listed(answers: AsyncIterator[dict[str, Any]], key: str) -> list[Any]:
    """Return the items of all pages."""
    return [item async for answer in answers for item in answer.get(key) or ()]


def _tags_of(tags: Any) -> dict[str, str]:
    return {str(tag.get("Key")): str(tag.get("Value")) for tag in tags or ()}


def _seconds(moment: object) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else 0.0


def _used_by(interface: Mapping[str, Any]) -> str:
    """Return a network interface's description, which names its user: `ELB net/…`, `aws-K8S-i-…`."""
    return one_line(str(interface.get("Description") or ""))
