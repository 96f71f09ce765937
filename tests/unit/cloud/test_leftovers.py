"""The search for what a run has left in its account, against moto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import MissingError
from actions.cloud.aws_session import AwsSession
from actions.cloud.leftovers import SearchResult, SearchScope, search_account
from actions.cloud.resources import (
    AwsResource,
    control_plane_price,
    endpoint_price,
    hourly_price,
    hourly_text,
    images_price,
    lustre_price,
    parts_of,
    removal_command,
    volume_price,
)
from actions.fleet.prices import PriceBook
from tests.support.account import REGION, an_account, client

ACCOUNT = "123456789012"
RUN = "small-1122-abc"
CLUSTER = "mine"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
POLICY = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "*"}]}
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with an_account() as address:
        yield address


@pytest.fixture
def _account(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty account."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")):
        pass


@pytest.fixture
def session(_account: None) -> Iterator[AwsSession]:
    made = AwsSession(region=REGION)
    yield made
    made.close()


def a_scope(**others: Any) -> SearchScope:
    """Of a run that was created just now, and has made its cluster."""
    since = SystemClock().now().timestamp()
    known = SearchScope(tag="eksml-run", run_id=RUN, since=since, region=REGION, cluster=CLUSTER, owns_cluster=True)
    return replace(known, **others)


def names(result: SearchResult) -> set[str]:
    return {parts_of(one.arn).name.rpartition("/")[2] for one in result.resources}


def tagged(kind: str, **tags: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": key.replace("__", "/"), "Value": tags[key]} for key in tags]}]


def a_volume(key: str, value: str) -> str:
    made = client("ec2").create_volume(
        AvailabilityZone=f"{REGION}a",
        Size=100,
        VolumeType="gp3",
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": key, "Value": value}]}],
    )
    return str(made["VolumeId"])


async def test_an_empty_account_has_nothing_of_a_run(session: AwsSession) -> None:
    assert await search_account(session, a_scope(vpc="vpc-0123456789abcdef0", repositories=("nemo",))) == SearchResult()


async def test_what_others_made_for_the_cluster_is_found_by_its_tags(session: AwsSession) -> None:
    owned = a_volume(f"kubernetes.io/cluster/{CLUSTER}", "owned")
    cni = a_volume("cluster.k8s.amazonaws.com/name", CLUSTER)
    ours = a_volume("eksml-run", RUN)
    a_volume("kubernetes.io/cluster/another", "owned")
    a_volume("eksml-run", "another-run")
    found = await search_account(session, a_scope())
    assert names(found) == {owned, cni, ours}
    assert {one.arn.rpartition("/")[2]: one.is_of_cluster for one in found.resources} == {
        owned: True,
        cni: True,
        ours: False,
    }
    assert all(one.usd_per_hour == Decimal("8.00") / 730 for one in found.resources)
    alone = await search_account(session, a_scope(owns_cluster=False))
    assert names(alone) == {ours}, "in a cluster of others, what belongs to it is theirs"


async def test_in_a_cluster_of_others_the_pools_of_the_run_are_its_own(session: AwsSession) -> None:
    tags = {"karpenter.sh/nodepool": "gpu", f"kubernetes.io/cluster/{CLUSTER}": "owned"}
    specification = [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": tags[key]} for key in tags]}]
    image = client("ec2").register_image(Name="nodes")["ImageId"]
    made = client("ec2").run_instances(
        ImageId=image, InstanceType="c5.xlarge", MinCount=1, MaxCount=1, TagSpecifications=specification
    )
    instance = made["Instances"][0]["InstanceId"]
    found = await search_account(session, a_scope(owns_cluster=False, pools=("gpu",)))
    assert names(found) == {instance}
    assert names(await search_account(session, a_scope(owns_cluster=False, pools=("other",)))) == set()


async def test_what_was_never_tagged_is_found_in_the_runs_vpc(session: AwsSession) -> None:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.3.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.3.1.0/24")["Subnet"]["SubnetId"]
    interface = ec2.create_network_interface(SubnetId=subnet, Description="aws-K8S-i-0abc")["NetworkInterface"]
    group = ec2.create_security_group(GroupName="k8s-traffic", Description="load balancer", VpcId=vpc)["GroupId"]
    endpoint = ec2.create_vpc_endpoint(
        VpcId=vpc, ServiceName=f"com.amazonaws.{REGION}.guardduty-data", VpcEndpointType="Interface", SubnetIds=[subnet]
    )["VpcEndpoint"]["VpcEndpointId"]
    nat = ec2.create_nat_gateway(SubnetId=subnet)["NatGateway"]["NatGatewayId"]
    found = await search_account(session, a_scope(vpc=vpc))
    assert {vpc, interface["NetworkInterfaceId"], group, endpoint, nat} <= names(found)
    assert found.unknown == ()
    lines = {parts_of(one.arn).name: one.line() for one in found.resources}
    assert (
        f"in {vpc}; aws-K8S-i-0abc; remove: aws ec2 delete-network-interface" in lines[interface["NetworkInterfaceId"]]
    )
    paid = "guardduty-data, billed by the hour and zone; $0.01/h; remove: aws ec2 delete-vpc-endpoints"
    assert paid in lines[endpoint]
    assert "$0.045/h; remove: aws ec2 delete-nat-gateway --nat-gateway-id" in lines[nat]
    prices = [one.usd_per_hour or 0 for one in found.resources]
    assert prices == sorted(prices, reverse=True), "the most expensive comes first"
    ec2.delete_nat_gateway(NatGatewayId=nat)
    assert nat not in names(await search_account(session, a_scope(vpc=vpc)))


async def test_roles_policies_profiles_and_providers_are_found_by_name_or_tag(session: AwsSession) -> None:
    iam, ours, theirs = client("iam"), [{"Key": "eksml-run", "Value": RUN}], [{"Key": "eksml-run", "Value": "other"}]
    for name, tags in (
        (f"{CLUSTER}-node", []),
        (f"{CLUSTER}-export-2026", []),
        (f"{CLUSTER}-cluster-2026", ours),
        ("core-eks-node-group-2026", ours),
        ("core-eks-node-group-2025", theirs),
        (f"{CLUSTER}-cluster-2025", theirs),
        (f"{CLUSTER}-developers", []),
    ):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=tags)
    iam.create_policy(PolicyName="KarpenterController-1", PolicyDocument=POLICY, Tags=ours)
    iam.create_policy(PolicyName="KarpenterController-2", PolicyDocument=POLICY, Tags=theirs)
    iam.create_instance_profile(InstanceProfileName=f"{CLUSTER}_1234567890")
    urls = {
        RUN: f"https://oidc.eks.{REGION}.amazonaws.com/id/AAA",
        "x": f"https://oidc.eks.{REGION}.amazonaws.com/id/B",
    }
    for run, url in urls.items():
        iam.create_open_id_connect_provider(
            Url=url, ThumbprintList=["0" * 40], Tags=[{"Key": "eksml-run", "Value": run}]
        )
    found = await search_account(session, a_scope())
    assert names(found) == {
        f"{CLUSTER}-node",
        f"{CLUSTER}-export-2026",
        f"{CLUSTER}-cluster-2026",
        "core-eks-node-group-2026",
        "KarpenterController-1",
        f"{CLUSTER}_1234567890",
        "AAA",
    }
    later = SystemClock().now().timestamp() + 3600
    young = await search_account(session, a_scope(since=later))
    assert f"{CLUSTER}-node" not in names(young), "without our tag, what is older than the run is of others"


async def test_a_bucket_has_the_price_of_what_it_holds_old_versions_included(
    session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, name, gib = client("s3"), f"{CLUSTER}-fsx-2026", 2**30
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": [{"Key": "eksml-run", "Value": RUN}]})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for key in ("a", "b", "b", "c"):
        s3.put_object(Bucket=name, Key=key, Body=b"x")
    s3.delete_object(Bucket=name, Key="c")
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Answer in pages of two, and of objects of a hundred GiB."""
        if operation == "list_object_versions":
            parameters["MaxKeys"] = 2
        answer = await real(session, service, operation, **parameters)
        for version in answer.get("Versions") or ():
            version["Size"] = 100 * gib
        return answer

    monkeypatch.setattr(AwsSession, "call", call)
    (bucket,) = (await search_account(session, a_scope())).resources
    assert bucket.line() == (
        f"AWS arn:aws:s3:::{name}: tagged eksml-run={RUN}; 5 objects, 400.0 GiB; $0.0126/h; "
        f"remove: aws s3 rb --force s3://{name}"
    )
    monkeypatch.setattr("actions.cloud.describe._COUNTED_PAGES", 2)
    (large,) = (await search_account(session, a_scope())).resources
    assert large.note.startswith("more than 4 objects, more than ")
    forbid(monkeypatch, "list_object_versions")
    (unread,) = (await search_account(session, a_scope())).resources
    assert (unread.usd_per_hour, unread.note) == (None, "its size may not be asked for (s3:ListBucketVersions)")


async def test_a_bucket_that_is_gone_is_not_left(session: AwsSession, monkeypatch: pytest.MonkeyPatch) -> None:
    async def still_listed(_session: AwsSession, _tags: Any) -> list[str]:
        return [f"arn:aws:s3:::{CLUSTER}-fsx-2025"]

    monkeypatch.setattr("actions.cloud.leftovers.fetch_tagged", still_listed)
    found = await search_account(session, a_scope())
    assert (found.resources, found.unknown) == ((), ())


async def test_log_groups_and_repositories_are_found_by_name_and_older_ones_are_marked(session: AwsSession) -> None:
    group = f"/aws/eks/{CLUSTER}/cluster"
    client("logs").create_log_group(logGroupName=group)
    client("logs").create_log_group(logGroupName=f"/aws/eks/{CLUSTER}-two/cluster")
    client("ecr").create_repository(repositoryName="nemo-aws")
    found = await search_account(session, a_scope(repositories=("nemo-aws",)))
    assert {parts_of(one.arn).name for one in found.resources} == {group, "nemo-aws"}
    assert {one.is_older for one in found.resources} == {False}
    later = SystemClock().now().timestamp() + 3600
    older = await search_account(session, a_scope(repositories=("nemo-aws",), since=later))
    assert {one.is_older for one in older.resources} == {True}


async def test_a_cluster_costs_by_its_version_and_one_that_is_gone_is_no_leftover(
    session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = client("eks").create_cluster(
        name=CLUSTER,
        version="1.31",
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/mine",
        resourcesVpcConfig={"subnetIds": []},
        tags={"eksml-run": RUN},
    )["cluster"]["arn"]
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation == "get_resources":
            return {"ResourceTagMappingList": [{"ResourceARN": made}]}
        return await real(session, service, operation, **parameters)

    monkeypatch.setattr(AwsSession, "call", call)
    (line,) = [one.line() for one in (await search_account(session, a_scope())).resources]
    assert "Kubernetes 1.31; $0.60/h; remove: aws eks delete-cluster --name mine" in line
    client("eks").delete_cluster(name=CLUSTER)
    assert await search_account(session, a_scope()) == SearchResult()


async def test_images_have_their_size_and_price(session: AwsSession, monkeypatch: pytest.MonkeyPatch) -> None:
    client("ecr").create_repository(repositoryName="nemo-aws")
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation != "describe_images":
            return await real(session, service, operation, **parameters)
        more = {} if "nextToken" in parameters else {"nextToken": "2"}
        return {"imageDetails": [{"imageSizeInBytes": 11 * 10**9}], **more}

    monkeypatch.setattr(AwsSession, "call", call)
    (found,) = (await search_account(session, a_scope(repositories=("nemo-aws",)))).resources
    assert "22.0 GB; $0.003/h; remove: aws ecr delete-repository --force" in found.line()
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("code", "arn"),
    [
        ("NatGatewayNotFound", "ec2:us-west-2:1:natgateway/nat-1"),
        ("InvalidInstanceID.NotFound", "ec2:us-west-2:1:instance/i-1"),
        ("InvalidNetworkInterfaceID.NotFound", "ec2:us-west-2:1:network-interface/eni-1"),
        ("InvalidGroup.NotFound", "ec2:us-west-2:1:security-group/sg-1"),
        ("InvalidSecurityGroupRuleId.NotFound", "ec2:us-west-2:1:security-group-rule/sgr-1"),
        ("InvalidVolume.NotFound", "ec2:us-west-2:1:volume/vol-1"),
        ("InvalidVpcEndpointId.NotFound", "ec2:us-west-2:1:vpc-endpoint/vpce-1"),
        ("InvalidVpcID.NotFound", "ec2:us-west-2:1:vpc/vpc-1"),
        ("ResourceNotFoundException", "eks:us-west-2:1:cluster/mine"),
        ("ResourceNotFoundException", "eks:us-west-2:1:nodegroup/mine/gpu/0a-1b"),
        ("FileSystemNotFound", "fsx:us-west-2:1:file-system/fs-1"),
        ("RepositoryNotFoundException", "ecr:us-west-2:1:repository/nemo"),
        ("NotFoundException", "kms:us-west-2:1:key/k-1"),
    ],
)
async def test_a_resource_that_is_gone_is_neither_left_nor_unknown(
    code: str, arn: str, session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = a_volume("eksml-run", RUN)
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation == "get_resources":
            volume = f"arn:aws:ec2:{REGION}:{ACCOUNT}:volume/{ours}"
            return {"ResourceTagMappingList": [{"ResourceARN": f"arn:aws:{arn}"}, {"ResourceARN": volume}]}
        if service != arn.partition(":")[0] or ours in str(parameters):
            return await real(session, service, operation, **parameters)

        def refuse() -> dict[str, Any]:
            raise ClientError({"Error": {"Code": code, "Message": "it does not exist"}}, operation)

        return await session.offload(refuse, action=f"{service}:{operation}")

    monkeypatch.setattr(AwsSession, "call", call)
    found = await search_account(session, a_scope())
    assert (names(found), found.unknown) == ({ours}, ())


@pytest.mark.parametrize(("tags", "left"), [([], False), ([{"Key": "eksml-run"}], True), (None, True)])
async def test_what_has_no_lookup_of_its_own_is_gone_with_its_tags(
    tags: list[dict[str, str]] | None, left: bool, session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"arn:aws:ec2:{REGION}:{ACCOUNT}:elastic-ip/eipalloc-0123456789abcdef0"
    if tags is None:
        forbid(monkeypatch, "describe_tags")
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation == "get_resources":
            return {"ResourceTagMappingList": [{"ResourceARN": address}]}
        if operation == "describe_tags" and tags is not None:
            return {"Tags": tags}
        return await real(session, service, operation, **parameters)

    monkeypatch.setattr(AwsSession, "call", call)
    found = await search_account(session, a_scope())
    assert [one.arn for one in found.resources] == [address] * left
    assert found.unknown == ()
    assert all("$0.005/h; remove: aws ec2 release-address" in one.line() for one in found.resources)


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [
        ("iam", "list_role_tags", "NoSuchEntity"),
        ("logs", "describe_log_groups", "ResourceNotFoundException"),
        ("ecr", "describe_repositories", "RepositoryNotFoundException"),
        ("ec2", "describe_nat_gateways", "NatGatewayNotFound"),
        ("ec2", "describe_vpcs", "InvalidVpcID.NotFound"),
        ("s3", "head_bucket", "NoSuchBucket"),
        ("sqs", "get_queue_url", "AWS.SimpleQueueService.NonExistentQueue"),
        ("ec2", "describe_placement_groups", "InvalidPlacementGroup.Unknown"),
        ("ec2", "describe_launch_templates", "InvalidLaunchTemplateId.NotFound"),
        ("ec2", "describe_addresses", "InvalidAllocationID.NotFound"),
        ("fsx", "describe_data_repository_associations", "DataRepositoryAssociationNotFound"),
        ("elasticloadbalancing", "describe_load_balancers", "LoadBalancerNotFound"),
        ("s3", "head_bucket", "404"),
    ],
)
async def test_every_spelling_of_not_found_is_known(service: str, operation: str, code: str) -> None:
    def refuse() -> dict[str, Any]:
        raise ClientError({"Error": {"Code": code, "Message": "Not Found"}}, operation)

    session = AwsSession()
    try:
        with pytest.raises(MissingError):
            await session.offload(refuse, action=f"{service}:{operation}")
    finally:
        session.close()


async def test_a_missing_right_makes_one_question_unknown_and_names_it(
    session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = a_volume("eksml-run", RUN)
    forbid(monkeypatch, "list_roles", "describe_log_groups")
    found = await search_account(session, a_scope(vpc="vpc-0123456789abcdef0"))
    assert names(found) == {ours}
    assert [line.partition(": ")[0] for line in found.unknown] == [
        f"Log groups of the cluster {CLUSTER} could not be searched",
        "IAM roles could not be searched",
    ]
    assert "logs:DescribeLogGroups" in found.unknown[0]
    assert "iam:ListRoles" in found.unknown[1]


async def test_a_resource_that_may_not_be_described_is_unknown_and_hides_no_other(
    session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = a_volume("eksml-run", RUN)
    vpc = client("ec2").create_vpc(CidrBlock="10.4.0.0/16", TagSpecifications=tagged("vpc", **{"eksml-run": RUN}))
    forbid(monkeypatch, "describe_volumes")
    found = await search_account(session, a_scope())
    assert names(found) == {vpc["Vpc"]["VpcId"]}
    (line,) = found.unknown
    assert ours in line
    assert "ec2:DescribeVolumes" in line


def forbid(monkeypatch: pytest.MonkeyPatch, *operations: str) -> None:
    """Have AWS refuse some calls of sessions."""
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation not in operations:
            return await real(session, service, operation, **parameters)

        def refuse() -> dict[str, Any]:
            answer: Any = {"Error": {"Code": "AccessDenied", "Message": "not authorized"}, "ResponseMetadata": {}}
            raise ClientError(answer, operation)

        verb = "".join(word.capitalize() for word in operation.split("_"))
        return await session.offload(refuse, action=f"{service}:{verb}")

    monkeypatch.setattr(AwsSession, "call", call)


@pytest.mark.parametrize(
    ("resource", "command"),
    [
        ("eks:us-west-2:1:cluster/mine", "aws eks delete-cluster --name mine --region us-west-2"),
        (
            "eks:us-west-2:1:nodegroup/mine/gpu/0a-1b",
            "aws eks delete-nodegroup --cluster-name mine --nodegroup-name gpu --region us-west-2",
        ),
        (
            "logs:us-west-2:1:log-group:/aws/eks/mine/cluster",
            "aws logs delete-log-group --log-group-name /aws/eks/mine/cluster --region us-west-2",
        ),
        (
            "elasticloadbalancing:us-west-2:1:loadbalancer/net/k8s/1",
            "aws elbv2 delete-load-balancer --load-balancer-arn "
            "arn:aws:elasticloadbalancing:us-west-2:1:loadbalancer/net/k8s/1 --region us-west-2",
        ),
        (
            "elasticloadbalancing:us-west-2:1:loadbalancer/a1b2",
            "aws elb delete-load-balancer --load-balancer-name a1b2 --region us-west-2",
        ),
        (
            "iam::1:role/path/mine-node",
            "aws iam list-attached-role-policies --role-name mine-node --output text --query"
            " AttachedPolicies[].PolicyArn | xargs -rn1 aws iam detach-role-policy --role-name mine-node --policy-arn"
            " && aws iam delete-role --role-name mine-node",
        ),
        ("iam::1:policy/p", "aws iam delete-policy --policy-arn arn:aws:iam::1:policy/p"),
        ("s3:::mine-fsx-1", "aws s3 rb --force s3://mine-fsx-1"),
        (
            "sqs:us-west-2:1:Karpenter-mine",
            "aws sqs delete-queue --queue-url https://sqs.us-west-2.amazonaws.com/1/Karpenter-mine --region us-west-2",
        ),
        ("unheard:us-west-2:1:of/x", ""),
    ],
)
def test_every_kind_has_the_command_that_removes_it(resource: str, command: str) -> None:
    assert removal_command(f"arn:aws:{resource}") == command


def test_prices_are_those_of_the_kind_and_of_the_regions_that_are_known() -> None:
    book = PriceBook.load()
    assert hourly_price(book, "arn:aws:ec2:us-west-2:1:natgateway/nat-1") == Decimal("0.045")
    assert hourly_price(book, "arn:aws:ec2:eu-west-1:1:natgateway/nat-1") is None
    assert hourly_price(book, "arn:aws:iam::1:role/x") is None
    balancer = "arn:aws:elasticloadbalancing:us-west-2:1:loadbalancer"
    assert [hourly_price(book, f"{balancer}/{name}") for name in ("app/k8s/1", "net/k8s/1", "a1b2", "gwy/x/1")] == [
        Decimal("0.0225"),
        Decimal("0.0225"),
        Decimal("0.025"),
        None,
    ]
    assert endpoint_price(book, "us-west-2", 3) == Decimal("0.03")
    assert endpoint_price(book, "eu-west-1", 3) is None
    day = date(2026, 11, 22)
    assert control_plane_price(book, "eu-west-1", "1.31", day) == Decimal("0.60")
    assert control_plane_price(book, "eu-west-1", "1.36", day) == Decimal("0.10")
    assert images_price(book, "us-west-2", 20 * 10**9) == Decimal("0.10") * 20 / 730
    assert lustre_price(book, "us-west-2", 500, 2400) == Decimal("0.340") * 2400 / 730
    assert lustre_price(book, "us-west-2", 12, 2400) is None
    assert volume_price(book, "eu-west-1", "gp3", 100) is None
    assert [hourly_text(Decimal(text)) for text in ("82.27", "0.045", "0.5", "0.00011")] == [
        "$82.27/h",
        "$0.045/h",
        "$0.50/h",
        "$0.0001/h",
    ]
    assert AwsResource("not an ARN", "seen").line() == "AWS not an ARN: seen"
