"""One resource of the account, looked up by its ARN: still there or not, with its hourly price.

The tagging API lists resources for a while after they were deleted; EC2 shows terminated instances and deleted gateways
for an hour; KMS keys wait for days to be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import MissingError, RefusedError
from actions.base.untrusted import one_line
from actions.base.wording import counted
from actions.cloud.aws_session import AwsSession, MissingPermissionError, pages
from actions.cloud.resources import (
    AwsResource,
    bucket_price,
    control_plane_price,
    endpoint_price,
    hourly_price,
    images_price,
    lustre_price,
    parts_of,
    volume_price,
)
from actions.fleet.prices import ON_DEMAND, PriceBook

_COUNTED_PAGES = 20
"""Pages of 1,000 objects that are listed to price a bucket."""
_BY_TAGS = frozenset(
    {"elastic-ip", "internet-gateway", "launch-template", "network-acl", "route-table", "snapshot", "subnet"}
)
"""Kinds that are looked up by their tags: a resource that is gone has none."""
_MARKETS = {"spot": "spot", "capacity-block": "capacity-block"}
"""`InstanceLifecycle` of EC2, and the market in the table of prices; without any it is on-demand."""


class ResourceDescriber:
    """Looks resources of one account and region up.

    Args:
        session: In the region.
        region: Its name.
        account: Twelve digits.
        partition: `aws`, `aws-cn`…
    """

    def __init__(self, session: AwsSession, *, region: str, account: str, partition: str) -> None:
        self._session = session
        self._region = region
        self._account = account
        self._partition = partition

    async def describe(self, arn: str, reason: str) -> AwsResource | None:
        """Look a resource up; `None` if it is gone. Of kinds that are not looked up, its price by its kind.

        Args:
            arn: As the tagging API lists it.
            reason: The evidence for its belonging to the run.

        Raises:
            MissingPermissionError: No right to describe it.
            UnreachableError: No answer.
        """
        parts = parts_of(arn)
        try:
            if parts.service == "ec2":
                return await self._of_ec2(parts.kind, parts.name, AwsResource(arn, reason))
            return await self._of_others(parts.service, parts.kind, parts.name, AwsResource(arn, reason))
        except MissingError:
            return None

    async def _of_ec2(self, kind: str, name: str, known: AwsResource) -> AwsResource | None:
        match kind:
            case "instance":
                answer = await self._session.call("ec2", "describe_instances", InstanceIds=[name])
                items = [item for group in answer.get("Reservations") or () for item in group.get("Instances") or ()]
                items = [item for item in items if (item.get("State") or {}).get("Name") != "terminated"]
                return self.instance(items[0], known.reason) if items else None
            case "natgateway":
                answer = await self._session.call("ec2", "describe_nat_gateways", NatGatewayIds=[name])
                open_ones = [item for item in answer.get("NatGateways") or () if item.get("State") != "deleted"]
                return self.priced(known) if open_ones else None
            case "network-interface":
                answer = await self._session.call("ec2", "describe_network_interfaces", NetworkInterfaceIds=[name])
                return known if answer.get("NetworkInterfaces") else None
            case "security-group":
                answer = await self._session.call("ec2", "describe_security_groups", GroupIds=[name])
                return known if answer.get("SecurityGroups") else None
            case "security-group-rule":
                answer = await self._session.call("ec2", "describe_security_group_rules", SecurityGroupRuleIds=[name])
                rules = answer.get("SecurityGroupRules") or ()
                return _rule(rules[0], name, known, self._region) if rules else None
            case "volume":
                answer = await self._session.call("ec2", "describe_volumes", VolumeIds=[name])
                volumes = answer.get("Volumes") or ()
                return self._volume(volumes[0], known) if volumes else None
            case "vpc-endpoint":
                answer = await self._session.call("ec2", "describe_vpc_endpoints", VpcEndpointIds=[name])
                ends = [item for item in answer.get("VpcEndpoints") or () if item.get("State") != "deleted"]
                return self.endpoint(ends[0], known.reason) if ends else None
            case "vpc":
                answer = await self._session.call("ec2", "describe_vpcs", VpcIds=[name])
                return known if answer.get("Vpcs") else None
        return self.priced(known) if kind not in _BY_TAGS or await self._has_tags(name) else None

    async def _has_tags(self, name: str) -> bool:
        """Return whether a resource of EC2, by its id, has tags, and so still exists; true if that may not be asked."""
        try:
            wanted = [{"Name": "resource-id", "Values": [name]}]
            answer = await self._session.call("ec2", "describe_tags", Filters=wanted)
        except (MissingPermissionError, RefusedError):
            return True
        return bool(answer.get("Tags"))

    async def _of_others(self, service: str, kind: str, name: str, known: AwsResource) -> AwsResource | None:
        match service, kind:
            case "kms", "key":
                answer = await self._session.call("kms", "describe_key", KeyId=known.arn)
                is_going = (answer.get("KeyMetadata") or {}).get("KeyState") == "PendingDeletion"
                return None if is_going else known
            case "fsx", "file-system":
                answer = await self._session.call("fsx", "describe_file_systems", FileSystemIds=[name])
                systems = answer.get("FileSystems") or ()
                return self._file_system(systems[0], known) if systems else None
            case "ecr", "repository":
                answer = await self._session.call("ecr", "describe_repositories", repositoryNames=[name])
                return await self.repository(known) if answer.get("repositories") else None
            case "s3", "":
                return await self._bucket(name, known)
            case "eks", "cluster":
                answer = await self._session.call("eks", "describe_cluster", name=name)
                return self._cluster(answer.get("cluster") or {}, known)
            case "eks", _:  # node groups, add-ons, associations: they go with their cluster
                await self._session.call("eks", "describe_cluster", name=name.partition("/")[0])
        return self.priced(known)

    def priced(self, resource: AwsResource) -> AwsResource:
        """Return a resource with the price that its kind has, if any."""
        return replace(resource, usd_per_hour=hourly_price(self._prices, resource.arn))

    def instance(self, item: Mapping[str, Any], reason: str) -> AwsResource:
        """Return an instance, as `DescribeInstances` answers, with its price by type and market."""
        arn = self._arn(f"instance/{one_line(str(item.get('InstanceId', '')))}")
        instance_type = one_line(str(item.get("InstanceType", "")))
        market = _MARKETS.get(str(item.get("InstanceLifecycle") or ""), ON_DEMAND)
        price = self._prices.price_of(instance_type, self._region, market)
        usd = price.usd_per_hour if price else None
        return AwsResource(arn, reason, usd_per_hour=usd, note=instance_type)

    def endpoint(self, item: Mapping[str, Any], reason: str) -> AwsResource:
        """Return a VPC endpoint, as `DescribeVpcEndpoints` answers, with the price of an interface in each zone."""
        arn = self._arn(f"vpc-endpoint/{one_line(str(item.get('VpcEndpointId', '')))}")
        kind, name = item.get("VpcEndpointType"), one_line(str(item.get("ServiceName", "")))
        if kind == "Gateway":
            return AwsResource(arn, reason, note=f"{name}, free")
        zones = max(1, len(item.get("SubnetIds") or ()))
        usd = endpoint_price(self._prices, self._region, zones) if kind == "Interface" else None
        return AwsResource(arn, reason, usd_per_hour=usd, note=f"{name}, billed by the hour and zone")

    async def repository(self, known: AwsResource) -> AwsResource:
        """Return a repository of ECR with the size and the price of its images, where these may be listed.

        Raises:
            AccessError, UnreachableError: As `AwsSession.call`, but for a missing right.
        """
        size, name = 0, parts_of(known.arn).name
        try:
            async for answer in pages(self._session, "ecr", "describe_images", repositoryName=name):
                size += sum(int(item.get("imageSizeInBytes") or 0) for item in answer.get("imageDetails") or ())
        except (MissingPermissionError, MissingError, RefusedError):
            return known
        usd = images_price(self._prices, self._region, size) if size else None
        return replace(known, usd_per_hour=usd, note=f"{size / 1000**3:.1f} GB" if size else known.note)

    def _cluster(self, item: Mapping[str, Any], known: AwsResource) -> AwsResource:
        version = one_line(str(item.get("version") or ""))
        usd = control_plane_price(self._prices, self._region, version, SystemClock().now().date())
        return replace(known, usd_per_hour=usd, note=f"Kubernetes {version}")

    def _volume(self, item: Mapping[str, Any], known: AwsResource) -> AwsResource:
        size, kind = int(item.get("Size") or 0), str(item.get("VolumeType", ""))
        usd = volume_price(self._prices, self._region, kind, size)
        return replace(known, usd_per_hour=usd, note=one_line(f"{size} GiB {kind}"))

    def _file_system(self, item: Mapping[str, Any], known: AwsResource) -> AwsResource:
        size = int(item.get("StorageCapacity") or 0)
        throughput = int((item.get("LustreConfiguration") or {}).get("PerUnitStorageThroughput") or 0)
        usd = lustre_price(self._prices, self._region, throughput, size) if item.get("StorageType") == "SSD" else None
        return replace(known, usd_per_hour=usd, note=f"{size} GiB")

    async def _bucket(self, name: str, known: AwsResource) -> AwsResource:
        """Return a bucket with the number, size and price of what it holds, old versions included.

        Of a large one only the first pages are counted, so the price is a lower bound. Without the right to list it
        there is no price.
        """
        count, size, place = 0, 0, dict[str, str]()
        for _ in range(_COUNTED_PAGES):
            try:
                answer = await self._session.call("s3", "list_object_versions", Bucket=name, **place)
            except MissingPermissionError:
                return replace(known, note="its size may not be asked for (s3:ListBucketVersions)")
            versions = answer.get("Versions") or ()
            count += len(versions) + len(answer.get("DeleteMarkers") or ())
            size += sum(int(item.get("Size") or 0) for item in versions)
            if not answer.get("IsTruncated"):
                break
            place = {
                key: str(answer[f"Next{key}"]) for key in ("KeyMarker", "VersionIdMarker") if answer.get(f"Next{key}")
            }
        else:
            return self._stored(known, f"more than {count:,} objects, more than ", size)
        return self._stored(known, f"{counted(count, 'object')}, ", size)

    def _stored(self, known: AwsResource, words: str, size_bytes: int) -> AwsResource:
        gib = Decimal(size_bytes) / 2**30
        usd = bucket_price(self._prices, self._region, gib) if size_bytes else None
        return replace(known, usd_per_hour=usd, note=f"{words}{gib:.1f} GiB")

    def _arn(self, resource: str) -> str:
        return f"arn:{self._partition}:ec2:{self._region}:{self._account}:{resource}"

    @cached_property
    def _prices(self) -> PriceBook:
        return PriceBook.usual()


def _rule(item: Mapping[str, Any], name: str, known: AwsResource, region: str) -> AwsResource:
    direction = "egress" if item.get("IsEgress") else "ingress"
    group = one_line(str(item.get("GroupId", "")))
    rule = f"--group-id {group} --security-group-rule-ids {name}"
    return replace(known, command=f"aws ec2 revoke-security-group-{direction} {rule} --region {region}")
