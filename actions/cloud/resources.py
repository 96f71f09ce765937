"""One AWS resource by its ARN: its kind, its price by the hour where one is known, and the command that removes it.

Sources: the Service Authorization Reference for the forms of ARNs, `aws help` (AWS CLI 2) for the commands. Prices are
those of the price book, with the operator's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Final

import msgspec

from actions.fleet.eks_versions import support_price
from actions.fleet.prices import CONTROL_PLANE, PriceBook
from actions.fleet.quantity import HOURS_PER_MONTH, format_usd


class ArnParts(msgspec.Struct, frozen=True):
    """An ARN in parts: `arn:aws:ec2:us-west-2:111122223333:volume/vol-1`."""

    service: str
    region: str
    """Empty for services without regions."""
    account: str
    kind: str
    """`volume`; empty for services that have one kind, such as SQS and S3."""
    name: str
    """All behind the kind; it may hold slashes."""


def parts_of(arn: str) -> ArnParts:
    """Return the parts of an ARN; of another text, its last part as the name."""
    words = arn.split(":", 5)
    if len(words) < len(("arn", "partition", "service", "region", "account", "resource")):
        return ArnParts("", "", "", "", arn)
    _, _, service, region, account, resource = words
    at = min((index for index in (resource.find("/"), resource.find(":")) if index >= 0), default=-1)
    kind, name = ("", resource) if at < 0 else (resource[:at], resource[at + 1 :])
    return ArnParts(service, region, account, kind, name)


class AwsResource(msgspec.Struct, frozen=True):
    """A resource that a search has found."""

    arn: str
    reason: str
    """The evidence that connects it with the run, for one line: `tagged eksml-run=…`."""
    usd_per_hour: Decimal | None = None
    """`None` if it costs nothing, or its price is unknown."""
    note: str = ""
    command: str = ""
    """Removes it. Empty: that of its kind."""
    is_of_cluster: bool = False
    """It was made for the cluster, and not for its network or data."""
    is_older: bool = False
    """It existed before the run: only its name is the run's."""

    def line(self) -> str:
        """Return it in one line: ARN, evidence, hourly price, and the command that removes it."""
        words = [self.reason]
        words += [self.note] if self.note else []
        words += [hourly_text(self.usd_per_hour)] if self.usd_per_hour is not None else []
        command = self.command or removal_command(self.arn)
        return f"AWS {self.arn}: {'; '.join(words)}" + (f"; remove: {command}" if command else "")


def hourly_text(amount: Decimal) -> str:
    """Return an hourly price, below a dollar with up to four decimals: `$82.27/h`, `$0.045/h`."""
    if amount >= 1:
        return f"{format_usd(amount)}/h"
    digits = f"{amount:.4f}".rstrip("0").partition(".")[2]
    return f"$0.{digits.ljust(2, '0')}/h"


_COMMANDS: Final[Mapping[tuple[str, str], str]] = {
    ("autoscaling", "autoScalingGroup"): "autoscaling delete-auto-scaling-group --force-delete "
    "--auto-scaling-group-name {last}",
    ("ec2", "elastic-ip"): "ec2 release-address --allocation-id {name}",
    ("ec2", "instance"): "ec2 terminate-instances --instance-ids {name}",
    ("ec2", "internet-gateway"): "ec2 delete-internet-gateway --internet-gateway-id {name}",
    ("ec2", "launch-template"): "ec2 delete-launch-template --launch-template-id {name}",
    ("ec2", "natgateway"): "ec2 delete-nat-gateway --nat-gateway-id {name}",
    ("ec2", "network-acl"): "ec2 delete-network-acl --network-acl-id {name}",
    ("ec2", "network-interface"): "ec2 delete-network-interface --network-interface-id {name}",
    ("ec2", "placement-group"): "ec2 delete-placement-group --group-name {name}",
    ("ec2", "route-table"): "ec2 delete-route-table --route-table-id {name}",
    ("ec2", "security-group"): "ec2 delete-security-group --group-id {name}",
    ("ec2", "snapshot"): "ec2 delete-snapshot --snapshot-id {name}",
    ("ec2", "subnet"): "ec2 delete-subnet --subnet-id {name}",
    ("ec2", "volume"): "ec2 delete-volume --volume-id {name}",
    ("ec2", "vpc"): "ec2 delete-vpc --vpc-id {name}",
    ("ec2", "vpc-endpoint"): "ec2 delete-vpc-endpoints --vpc-endpoint-ids {name}",
    ("ecr", "repository"): "ecr delete-repository --force --repository-name {name}",
    ("eks", "addon"): "eks delete-addon --cluster-name {first} --addon-name {second}",
    ("eks", "cluster"): "eks delete-cluster --name {name}",
    ("eks", "nodegroup"): "eks delete-nodegroup --cluster-name {first} --nodegroup-name {second}",
    ("eks", "podidentityassociation"): "eks delete-pod-identity-association --cluster-name {first} "
    "--association-id {second}",
    ("elasticloadbalancing", "targetgroup"): "elbv2 delete-target-group --target-group-arn {arn}",
    ("events", "rule"): "events delete-rule --force --name {last}",
    ("fsx", "association"): "fsx delete-data-repository-association --association-id {last}",
    ("fsx", "backup"): "fsx delete-backup --backup-id {name}",
    ("fsx", "file-system"): "fsx delete-file-system --file-system-id {name}",
    ("iam", "instance-profile"): "iam delete-instance-profile --instance-profile-name {last}",
    ("iam", "oidc-provider"): "iam delete-open-id-connect-provider --open-id-connect-provider-arn {arn}",
    ("iam", "policy"): "iam delete-policy --policy-arn {arn}",
    ("iam", "role"): "iam delete-role --role-name {last}",
    ("kms", "key"): "kms schedule-key-deletion --key-id {name}",
    ("logs", "log-group"): "logs delete-log-group --log-group-name {name}",
    ("s3", ""): "s3 rb --force s3://{name}",
    ("sqs", ""): "sqs delete-queue --queue-url https://sqs.{region}.amazonaws.com/{account}/{name}",
}
"""The AWS CLI's command by service and kind. An empty one is not known: the line names the resource alone."""


def removal_command(arn: str) -> str:
    """Return the command of the AWS CLI that removes a resource; empty if none is known for its kind."""
    parts = parts_of(arn)
    known = _COMMANDS.get((parts.service, parts.kind), "")
    if (parts.service, parts.kind) == ("elasticloadbalancing", "loadbalancer"):
        is_classic = "/" not in parts.name
        known = "elb delete-load-balancer --load-balancer-name {name}" if is_classic else _NEWER_LOAD_BALANCER
    if not known:
        return ""
    words = parts.name.split("/")
    text = known.format(
        arn=arn,
        name=parts.name,
        first=words[0],
        second=words[1] if len(words) > 1 else "",
        last=words[-1],
        region=parts.region,
        account=parts.account,
    )
    before = _BEFORE.get((parts.service, parts.kind), "").format(last=words[-1])
    return before + f"aws {text}" + (f" --region {parts.region}" if parts.region else "")


_BEFORE: Final[Mapping[tuple[str, str], str]] = {
    ("iam", "instance-profile"): "aws iam get-instance-profile --instance-profile-name {last} --output text"
    " --query InstanceProfile.Roles[].RoleName | xargs -rn1 aws iam remove-role-from-instance-profile"
    " --instance-profile-name {last} --role-name && ",
    ("iam", "role"): "aws iam list-attached-role-policies --role-name {last} --output text"
    " --query AttachedPolicies[].PolicyArn | xargs -rn1 aws iam detach-role-policy --role-name {last} --policy-arn && ",
}
"""The commands before the one of `_COMMANDS`: IAM deletes no role with policies, and no profile with a role."""
_NEWER_LOAD_BALANCER = "elbv2 delete-load-balancer --load-balancer-arn {arn}"
_SERVICES: Final[Mapping[tuple[str, str], str]] = {
    ("ec2", "elastic-ip"): "public-ipv4",
    ("ec2", "natgateway"): "nat-gateway",
}
"""Services of the price book by service and kind of an ARN."""
_BALANCERS: Final[Mapping[str, str]] = {"app": "load-balancer-application", "net": "load-balancer-network"}
"""Services of the price book by the first word of a load balancer's name in its ARN; a classic one has no such word."""


def hourly_price(prices: PriceBook, arn: str) -> Decimal | None:
    """Return the hourly price of a resource whose kind alone decides it; `None` for others, and where it is unknown."""
    parts = parts_of(arn)
    service = _SERVICES.get((parts.service, parts.kind), "")
    if (parts.service, parts.kind) == ("elasticloadbalancing", "loadbalancer"):
        word, slash, _ = parts.name.partition("/")
        service = _BALANCERS.get(word, "") if slash else "load-balancer-classic"
    return _by_hour(prices, service, parts.region)


def control_plane_price(prices: PriceBook, region: str, version: str, day: date) -> Decimal | None:
    """Return the hourly price of a control plane by its version's support on a day; `None` if it is unknown."""
    return _by_hour(prices, f"{CONTROL_PLANE}-{support_price(version, day)}", region)


def endpoint_price(prices: PriceBook, region: str, zones: int) -> Decimal | None:
    """Return the hourly price of an interface endpoint in some zones; `None` if it is unknown."""
    price = _by_hour(prices, "vpc-endpoint", region)
    return None if price is None else price * zones


def images_price(prices: PriceBook, region: str, size_bytes: int) -> Decimal | None:
    """Return the hourly price of images in ECR; `None` if it is unknown."""
    price = prices.service_price("ecr-storage", region)
    return price.usd * size_bytes / 1000**3 / HOURS_PER_MONTH if price else None


def volume_price(prices: PriceBook, region: str, volume_type: str, gib: int) -> Decimal | None:
    """Return the hourly price of an EBS volume, without provisioned IOPS; `None` if it is unknown."""
    return _by_month(prices, f"ebs-{volume_type}", region, gib)


def lustre_price(prices: PriceBook, region: str, throughput: int, gib: int) -> Decimal | None:
    """Return the hourly price of an SSD file system of FSx for Lustre; `None` if it is unknown."""
    return _by_month(prices, f"fsx-lustre-ssd-{throughput}", region, gib)


def bucket_price(prices: PriceBook, region: str, gib: Decimal) -> Decimal | None:
    """Return the hourly price of what a bucket holds in the class S3 Standard; `None` if it is unknown."""
    return _by_month(prices, "s3-standard", region, gib)


def _by_hour(prices: PriceBook, service: str, region: str) -> Decimal | None:
    price = prices.service_price(service, region) if service else None
    return price.usd if price else None


def _by_month(prices: PriceBook, service: str, region: str, gib: int | Decimal) -> Decimal | None:
    price = prices.service_price(service, region)
    return price.usd * gib / HOURS_PER_MONTH if price else None
