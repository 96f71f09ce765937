"""The AWS side of an adoption, against moto: pages of answers, other regions, other runs, what is deleted already."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import boto3
import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, MissingError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import Catalogue
from actions.cloud.aws_session import AwsSession
from actions.cloud.leftovers import SearchScope, search_account
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.auth.session import ClusterIdentity
from actions.run.presence.lease import ClusterLease
from actions.run.presence.record import presence_of
from actions.run.state.fold import fold
from actions.run.state.records import Action, ClusterName, Created, Intent, JournalRecord, Operator, Output
from actions.run.takeover import adopt
from actions.run.takeover.adopt import Lost, planned_adoption, require_own_cluster
from actions.run.takeover.arrival import arrival_records
from actions.run.takeover.imports import FoundResource
from actions.run.takeover.terraform_state import search_tagged
from tests.support.account import REGION, an_account, client
from tests.support.stores import CREDENTIALS
from tests.unit.run.world import creation, make_run, outline
from tui.cli.run_verbs.takeover import _eks_target
from tui.cli.target import chosen_target

if TYPE_CHECKING:
    pass

CLOCK = SystemClock()
ACCOUNT = "123456789012"
ELSEWHERE = "eu-west-1"
RUN = "nemo-gpt3-5b-1122-7clq5bfkflkl6"
OTHER_RUN = "nemo-gpt3-5b-1121-aaaaaaaaaaaaa"
CLUSTER = "nemo-on-eks"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
HERE = ClusterIdentity("uid-1", "v1.33.0", CLUSTER, ELSEWHERE, ACCOUNT)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with an_account() as address:
        yield address


@pytest.fixture(autouse=True)
def _account(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty account."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    with urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")):
        pass


@pytest.fixture
def session() -> Iterator[AwsSession]:
    made = AwsSession(region=REGION)
    yield made
    made.close()


def a_scope(**others: Any) -> SearchScope:
    since = CLOCK.now().timestamp()
    known = SearchScope(tag="eksml-run", run_id=RUN, since=since, region=REGION, cluster=CLUSTER, owns_cluster=True)
    return replace(known, **others)


def tags(run: str, name: str = "") -> list[dict[str, str]]:
    named = [{"Key": "Name", "Value": name}] if name else []
    return [{"Key": "eksml-run", "Value": run}, *named]


def tagged(kind: str, run: str, name: str = "") -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tags(run, name)}]


def by_id(found: tuple[FoundResource, ...]) -> dict[str, str]:
    return {one.import_id: one.kind for one in found}


async def test_every_page_of_what_carries_the_tag_is_read_and_nothing_of_another_run(session: AwsSession) -> None:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", RUN, CLUSTER))["Vpc"]["VpcId"]
    own = {vpc: "aws_vpc"}
    for number in range(60):  # the tagging API gives fifty a page
        run = RUN if number % 12 else OTHER_RUN
        block, named = f"10.0.{number}.0/24", tagged("subnet", run, f"{CLUSTER}-{number}")
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=block, TagSpecifications=named)["Subnet"]["SubnetId"]
        own |= {made: "aws_subnet"} if run == RUN else {}
    foreign: Any = boto3.client("ec2", region_name=ELSEWHERE)
    foreign.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", OTHER_RUN, CLUSTER))
    foreign.create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=tagged("vpc", RUN, CLUSTER))
    found, left = await search_tagged(session, a_scope())
    assert by_id(found) == own
    assert {one.tags["Name"] for one in found if one.import_id == vpc} == {CLUSTER}
    assert left == ()


@pytest.mark.parametrize(("marked", "is_known"), [(1, False), (0, False), (2, False), (1, True)])
async def test_the_zone_is_that_of_the_one_subnet_that_is_marked_for_nodes(
    session: AwsSession, tmp_path: Path, marked: int, is_known: bool
) -> None:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", RUN, CLUSTER))["Vpc"]["VpcId"]
    mark = {"Key": "karpenter.sh/discovery", "Value": CLUSTER}
    for number, zone in enumerate(("us-west-2c", "us-west-2a", "us-west-2b")):
        own = [{"ResourceType": "subnet", "Tags": [*tags(RUN), *([mark] if number < marked else [])]}]
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=zone, TagSpecifications=own)
    ec2.create_security_group(
        GroupName="nodes",
        Description="-",
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": [*tags(RUN), mark]}],
    )
    found, _ = await search_tagged(session, a_scope())

    first = replace(creation(), cluster=ClusterName(CLUSTER, REGION), stages=(outline("capacity", kind="capacity"),))
    with arrival_records(make_run(tmp_path, CLOCK, created=first), CLOCK) as records:
        records.write(Intent(Action.PERFORM), stage="capacity", attempt=1)
        if is_known:
            records.write(Output({"zone": "us-west-2d"}), stage="capacity", attempt=1)
        declared = SimpleNamespace(id="capacity", kind="capacity", outputs=("zone", "zone_id"))
        context: Any = SimpleNamespace(view=records.view(), blueprint=SimpleNamespace(stages=(declared,)))
        sources = await adopt._write_zone(records, context, found)
        zone = records.view().outputs.get("capacity", {}).get("zone", "")
    assert zone == ("us-west-2d" if is_known else "us-west-2c" if marked == 1 else "")
    assert len(sources) == (zone == "us-west-2c")


async def test_every_page_of_iams_lists_is_read_and_a_role_of_the_same_name_needs_the_tag(session: AwsSession) -> None:
    iam = client("iam")
    for number in range(110):  # a hundred a page
        iam.create_role(RoleName=f"a-{number:03}", AssumeRolePolicyDocument=TRUST)
    for name, run in ((f"{CLUSTER}-cluster-1", RUN), (f"{CLUSTER}-cluster-2", OTHER_RUN), (f"{CLUSTER}-node", "")):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=tags(run) if run else [])
    found, left = await search_tagged(session, a_scope())
    assert by_id(found) == {f"{CLUSTER}-cluster-1": "aws_iam_role"}
    assert [line for line in left if f"role/{CLUSTER}-node" in line and "named like" in line]
    assert not [line for line in left if f"{CLUSTER}-cluster-2" in line]


async def test_what_was_deleted_and_still_has_its_tags_is_not_taken_for_what_took_its_place(
    session: AwsSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    made = []
    for _ in range(2):
        named = tagged("natgateway", RUN, CLUSTER)
        gateway = ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private", TagSpecifications=named)
        made.append(gateway["NatGateway"]["NatGatewayId"])
    ec2.delete_nat_gateway(NatGatewayId=made[0])
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        answer = await real(session, service, operation, **parameters)
        if operation == "get_resources" and parameters["TagFilters"][0]["Key"] == "eksml-run":
            arns = [f"arn:aws:ec2:{REGION}:{ACCOUNT}:natgateway/{name}" for name in made]
            answer["ResourceTagMappingList"] = [{"ResourceARN": arn, "Tags": tags(RUN, CLUSTER)} for arn in arns]
        return answer

    monkeypatch.setattr(AwsSession, "call", call)
    found, _ = await search_tagged(session, a_scope())
    assert by_id(found) == {made[1]: "aws_nat_gateway"}


async def test_a_search_of_a_network_reads_every_page(session: AwsSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """EC2 gives everything at once, up to some limit of its own; this one gives one entry a page."""
    ec2, logs = client("ec2"), client("logs")
    vpc = ec2.create_vpc(CidrBlock="10.3.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.3.1.0/24")["Subnet"]["SubnetId"]
    names = {vpc}
    for number in range(3):
        group = ec2.create_security_group(GroupName=f"k8s-{number}", Description="load balancer", VpcId=vpc)["GroupId"]
        interface = ec2.create_network_interface(SubnetId=subnet, Groups=[group])["NetworkInterface"]
        end = ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=f"com.amazonaws.{REGION}.s3")["VpcEndpoint"]
        gateway = ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")["NatGateway"]
        names |= {group, interface["NetworkInterfaceId"], end["VpcEndpointId"], gateway["NatGatewayId"]}
    for number in range(55):  # moto, as AWS, gives fifty a page
        logs.create_log_group(logGroupName=f"/aws/eks/{CLUSTER}/{number}")
    real = AwsSession.call

    async def call(session: AwsSession, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        at = int(str(parameters.pop("NextToken", 0))) if service == "ec2" else 0
        answer = await real(session, service, operation, **parameters)
        for key, items in list(answer.items()) if service == "ec2" else []:
            if isinstance(items, list):
                answer |= {key: items[at : at + 1]} | ({"NextToken": str(at + 1)} if at + 1 < len(items) else {})
        return answer

    monkeypatch.setattr(AwsSession, "call", call)
    result = await search_account(session, a_scope(vpc=vpc))
    assert result.unknown == ()
    found = {one.arn.rpartition("/")[2] for one in result.resources if ":logs:" not in one.arn}
    assert found >= names
    assert len([one for one in result.resources if ":logs:" in one.arn]) == 55


def options(**others: Any) -> Namespace:
    plain: dict[str, Any] = {"allow_plugin": "", "demo": False, "kubeconfig": None, "context": "", "namespace": ""}
    return Namespace(**{**plain, "region": "", "profile": "", **others})


async def test_a_cluster_by_its_name_is_that_of_the_chosen_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for region in (REGION, ELSEWHERE):
        eks: Any = boto3.client("eks", region_name=region)
        role = f"arn:aws:iam::{ACCOUNT}:role/{region}"
        eks.create_cluster(name=CLUSTER, roleArn=role, resourcesVpcConfig={"subnetIds": []})
    monkeypatch.setenv("AWS_REGION", REGION)
    for region, given in ((ELSEWHERE, ELSEWHERE), (REGION, "")):
        folder = tmp_path / region
        folder.mkdir()
        target = await _eks_target(CLUSTER, chosen_target(options(region=given)), folder)
        context = load_context(target)
        assert context.cluster == f"arn:aws:eks:{region}:{ACCOUNT}:cluster/{CLUSTER}"
        assert f".{region}.eks." in context.server
    with pytest.raises(MissingError, match="EKS has no cluster other in eu-west-1") as refusal:
        await _eks_target("other", chosen_target(options(region=ELSEWHERE)), tmp_path)
    assert "--region" in refusal.value.hint


def a_lost_run(cluster: ClusterName | None) -> Lost:
    """A run with its record in a cluster, or with labels alone."""
    if cluster is None:
        return Lost(RUN)
    created = replace(creation(), run_id=RUN, cluster=cluster)
    view = fold([JournalRecord(1, 0.0, "operator", "", 0, created)])
    presence = presence_of(view, now=0.0, owner=Operator("anna", "bastion-1"), version="1")
    return Lost(RUN, ClusterLease(presence, 0.0, "1", created))


@pytest.mark.parametrize(
    "cluster",
    [None, ClusterName(CLUSTER, ELSEWHERE), ClusterName("eksml", "us-west-2", context="prod")],
)
def test_the_runs_own_cluster_is_accepted(cluster: ClusterName | None) -> None:
    require_own_cluster(a_lost_run(cluster), HERE)
    require_own_cluster(a_lost_run(ClusterName("another", REGION)), replace(HERE, account=""))


@pytest.mark.parametrize("cluster", [ClusterName(CLUSTER, REGION), ClusterName("another", ELSEWHERE)])
def test_a_record_that_was_restored_in_another_cluster_is_not_the_run(cluster: ClusterName) -> None:
    with pytest.raises(ConflictError, match=f"names the cluster {cluster.name} in {cluster.region}, and this one"):
        require_own_cluster(a_lost_run(cluster), HERE)


async def planned(reached: ClusterIdentity, target: ClusterTarget | None = None) -> Created:
    plan = await planned_adoption(Lost(RUN), Catalogue([shipped_blueprints()]), target, reached, CLOCK)
    return plan.created


async def test_a_run_with_labels_alone_is_rebuilt_in_the_cluster_that_was_reached() -> None:
    created = await planned(HERE)
    assert (created.cluster.name, created.cluster.region) == (CLUSTER, ELSEWHERE)
    assert (created.parameters["cluster_name"], created.parameters["region"]) == (CLUSTER, ELSEWHERE)
    assert created.account is not None
    assert (created.account.id, created.account.region) == (ACCOUNT, ELSEWHERE)


async def test_credentials_of_another_account_than_the_clusters_are_refused() -> None:
    with pytest.raises(ConflictError, match="is in the AWS account 999988887777, but these credentials are of"):
        await planned(replace(HERE, account="999988887777"))


async def test_a_context_that_names_no_cluster_of_eks_is_told() -> None:
    here = replace(HERE, account="", name="somewhere")
    plan = await planned_adoption(Lost(RUN), Catalogue([shipped_blueprints()]), ClusterTarget(), here, CLOCK)
    assert any("is not known by this context" in line for line in plan.missing)
