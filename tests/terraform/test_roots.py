"""The shared roots through real Terraform and the providers' schemas: planned, applied, planned again, destroyed."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actions.base.yamldoc import load_document
from tests.terraform.stub import ROOTS, StubAccount
from tests.terraform.workspaces import FINDINGS, VARIABLES, Change, Variables, Workspace
from tests.unit.fleet.test_eks_versions import component

FIXTURES = Path(__file__).parents[1] / "fixtures" / "terraform"
ALL = sorted(VARIABLES)
_MODULE = re.compile(r'^module "\w+" \{\n(?P<body>.*?)^\}', re.M | re.S)
_SOURCE = re.compile(r'^  source  = "(.+)"\n  version = "(.+)"$', re.M)
_ARGUMENT = re.compile(r"^  (\w+) +=", re.M)
_VARIABLE = re.compile(r'^variable "\w+" \{\n.*?^\}', re.M | re.S)
_OUTPUT = re.compile(r"module\.(\w+)\.(\w+)")
_FACTS = (
    "addon_name", "ami_type", "availability_zone", "cidr_block", "cidr_blocks", "create_duration",
    "destination_cidr_block", "domain", "enable_dns_hostnames", "enable_key_rotation", "enabled_cluster_log_types",
    "from_port", "instance_types", "labels", "metadata_options", "name", "name_prefix", "namespace",
    "node_group_name_prefix", "policy_arn", "preserve", "principal_arn", "protocol", "self", "service_account",
    "subnet_ids", "tag_specifications", "tags", "to_port", "type",
)  # fmt: skip
"""Attributes in which a stand-in and its module must agree."""


class Life:
    """All that one root did from its first plan to its end."""

    def __init__(self, workspace: Workspace) -> None:
        variables = VARIABLES[workspace.root]
        workspace.init().run("validate", "-no-color")
        self.planned = workspace.plan(variables)
        workspace.apply()
        self.tracked = workspace.tracked()
        self.made = workspace.account.objects()
        self.planned_again = workspace.plan(variables)
        workspace.destroy()
        self.left = workspace.account.objects()


@pytest.fixture(scope="module")
def lives(terraform_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Life]:
    """Every root's life, each in an account of its own."""
    folder = tmp_path_factory.mktemp("lives")
    return {
        root: Life(
            Workspace(root, folder / root, StubAccount(folder / f"{root}-account", FINDINGS), terraform_environment)
        )
        for root in ALL
    }


@pytest.fixture(scope="module")
def nodes(terraform_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The root of node groups, to be planned with other variables."""
    folder = tmp_path_factory.mktemp("nodes")
    return Workspace("nodes", folder / "root", StubAccount(folder / "account", FINDINGS), terraform_environment).init()


def of_kind(changes: Mapping[str, Change], kind: str) -> list[dict[str, Any]]:
    return [change.after for change in changes.values() if change.kind == kind]


def template(nodes: Workspace, **variables: str | int | bool) -> dict[str, Any]:
    """The launch template of a plan."""
    return of_kind(nodes.plan({**VARIABLES["nodes"], **variables}), "aws_launch_template")[0]


def test_every_root_is_tried() -> None:
    assert sorted(path.name for path in ROOTS.iterdir()) == ALL


@pytest.mark.parametrize("root", ALL)
def test_a_root_makes_what_it_plans_and_takes_all_of_it_away(lives: Mapping[str, Life], root: str) -> None:
    life = lives[root]
    assert {change.actions for change in life.planned.values()} == {("create",)}
    assert life.tracked == set(life.planned)
    assert sum(map(len, life.made.values())) == len(life.planned)
    assert life.left == {}


@pytest.mark.parametrize("root", ALL)
def test_a_second_plan_changes_nothing(lives: Mapping[str, Life], root: str) -> None:
    assert lives[root].planned_again == {}


@pytest.mark.parametrize("root", ALL)
def test_everything_that_can_have_tags_has_the_runs(lives: Mapping[str, Life], root: str) -> None:
    tagged = [change for change in lives[root].planned.values() if "tags_all" in change.after]
    assert tagged
    assert {change.address for change in tagged if change.after["tags_all"]["eksml-run"] != "run-1"} == set()
    for made in of_kind(lives[root].planned, "aws_launch_template"):
        found = {item["resource_type"]: item["tags"]["eksml-run"] for item in made["tag_specifications"]}
        assert found == dict.fromkeys(("instance", "volume", "network-interface"), "run-1")


def test_the_network_has_the_zone_of_the_file_system_first(lives: Mapping[str, Life]) -> None:
    private = {address: lives["network"].planned[address].after for address in sorted(lives["network"].planned)}
    first = private["module.vpc.aws_subnet.private[0]"]
    other = private["module.vpc.aws_subnet.private[1]"]
    assert (first["availability_zone"], other["availability_zone"]) == ("us-west-2b", "us-west-2a")
    assert first["tags"]["karpenter.sh/discovery"] == "nemo"
    assert "karpenter.sh/discovery" not in other["tags"]


@pytest.fixture(scope="module")
def network(terraform_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The root of networks, to be planned with other zones."""
    folder = tmp_path_factory.mktemp("network")
    return Workspace(
        "network", folder / "root", StubAccount(folder / "account", FINDINGS), terraform_environment
    ).init()


@pytest.mark.parametrize(
    ("zone", "first"),
    [("us-west-2c", "us-west-2c"), ("usw2-az1", "us-west-2b"), ("auto", "us-west-2a"), ("", "us-west-2a")],
)
def test_a_zone_is_given_by_name_or_by_id(network: Workspace, zone: str, first: str) -> None:
    planned = network.plan({**VARIABLES["network"], "zone": zone})
    assert planned["module.vpc.aws_subnet.private[0]"].after["availability_zone"] == first


def test_a_zone_that_eks_cannot_use_is_refused_with_those_that_it_can(network: Workspace) -> None:
    said = network.refused_plan({**VARIABLES["network"], "zone": "us-west-2z"})
    assert "us-west-2z is not a zone of us-west-2 that EKS can use. Those are us-west-2a, us-west-2b" in said


def test_karpenter_may_call_what_its_module_does_not_allow(lives: Mapping[str, Life]) -> None:
    policy = lives["cluster"].planned["aws_iam_role_policy.karpenter_reads[0]"].after
    regional, profiles = json.loads(policy["policy"])["Statement"]
    assert regional["Condition"] == {"StringEquals": {"aws:RequestedRegion": "us-west-2"}}
    assert {*regional["Action"], profiles["Action"]} == set(component("karpenter").reads)


def export_of(planned: Mapping[str, Change]) -> dict[str, dict[str, Any]]:
    """The planned attributes of what lets results be copied to S3, by type."""
    return {change.kind: change.after for change in planned.values() if change.address.endswith(".export[0]")}


def test_one_service_account_may_write_results_below_one_prefix_and_nothing_else(lives: Mapping[str, Life]) -> None:
    made = export_of(lives["cluster"].planned)
    association = made["aws_eks_pod_identity_association"]
    assert (association["namespace"], association["service_account"]) == ("training", "eksml-export")
    role = made["aws_iam_role"]
    assert role["name_prefix"] == "a-cluster-with-thirty-letters--export-"
    assert len(role["name_prefix"]) <= 38
    (trust,) = json.loads(role["assume_role_policy"])["Statement"]
    assert (trust["Effect"], trust["Principal"]) == ("Allow", {"Service": "pods.eks.amazonaws.com"})
    assert trust["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert trust["Condition"] == {
        "StringEquals": {
            "aws:RequestTag/eks-cluster-name": "a-cluster-with-thirty-letters-",
            "aws:RequestTag/kubernetes-namespace": "training",
            "aws:RequestTag/kubernetes-service-account": "eksml-export",
        }
    }
    assert json.loads(made["aws_iam_role_policy"]["policy"])["Statement"] == [
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": "arn:aws:s3:::my-models",
            "Condition": {"StringLike": {"s3:prefix": ["team/nemo", "team/nemo/*"]}},
        },
        {
            "Effect": "Allow",
            "Action": ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
            "Resource": "arn:aws:s3:::my-models/team/nemo/*",
        },
    ]


def test_s3_is_reached_past_the_one_nat_gateway(lives: Mapping[str, Life]) -> None:
    endpoint = of_kind(lives["network"].planned, "aws_vpc_endpoint")
    assert [(item["vpc_endpoint_type"], item["service_name"]) for item in endpoint] == [
        ("Gateway", "com.amazonaws.us-west-2.s3")
    ]
    assert len(of_kind(lives["network"].planned, "aws_nat_gateway")) == 1


def test_the_node_security_group_lets_efa_traffic_pass_both_ways(lives: Mapping[str, Life]) -> None:
    rules = of_kind(lives["cluster"].planned, "aws_security_group_rule")
    own = [rule["type"] for rule in rules if rule.get("self") and rule["protocol"] == "-1"]
    assert sorted(own) == ["egress", "ingress"]


def test_the_api_is_open_to_the_given_ranges_and_principals(lives: Mapping[str, Life]) -> None:
    cluster = of_kind(lives["cluster"].planned, "aws_eks_cluster")[0]
    (access,) = cluster["vpc_config"]
    assert access["endpoint_private_access"]
    assert access["endpoint_public_access"]
    assert sorted(access["public_access_cidrs"]) == ["198.51.100.7/32", "203.0.113.0/24"]
    policies = {
        item["principal_arn"]: item["policy_arn"].rpartition("/")[2]
        for item in of_kind(lives["cluster"].planned, "aws_eks_access_policy_association")
    }
    assert policies == {
        "arn:aws:iam::111122223333:role/ops": "AmazonEKSClusterAdminPolicy",
        "arn:aws:iam::111122223333:role/dev": "AmazonEKSViewPolicy",
    }


@pytest.fixture(scope="module")
def cluster(terraform_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The root of clusters, to be planned with other choices."""
    folder = tmp_path_factory.mktemp("cluster")
    return Workspace(
        "cluster", folder / "root", StubAccount(folder / "account", FINDINGS), terraform_environment
    ).init()


KEY = "arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d"


def test_a_cluster_leaves_a_version_whose_support_ends(lives: Mapping[str, Life]) -> None:
    (made,) = of_kind(lives["cluster"].planned, "aws_eks_cluster")
    assert [item["support_type"] for item in made["upgrade_policy"]] == ["STANDARD"]


def test_the_choices_of_a_cluster_reach_it(cluster: Workspace) -> None:
    ops, dev = "arn:aws:iam::111122223333:role/ops", "arn:aws:iam::111122223333:user/dev"
    planned = cluster.plan(
        {
            **VARIABLES["cluster"],
            "access_entries": "{}",
            "admins": f"{ops}, arn:aws:iam::111122223333:role/sre",
            "viewers": dev,
            "control_plane_logs": "all",
            "support_type": "EXTENDED",
            "kms_key_arn": KEY,
            "endpoint_public_access_cidrs": "",
        }
    )
    (made,) = of_kind(planned, "aws_eks_cluster")
    assert sorted(made["enabled_cluster_log_types"]) == [
        "api", "audit", "authenticator", "controllerManager", "scheduler",
    ]  # fmt: skip
    assert made["upgrade_policy"] == [{"support_type": "EXTENDED"}]
    assert [item["provider"] for item in made["encryption_config"]] == [[{"key_arn": KEY}]]
    assert not made["vpc_config"][0]["endpoint_public_access"]
    assert of_kind(planned, "aws_kms_key") == []
    (disk,) = of_kind(planned, "aws_launch_template")[0]["block_device_mappings"]
    assert disk["ebs"][0]["kms_key_id"] == KEY
    found = {
        (item["principal_arn"].rpartition("/")[2], item["policy_arn"].rpartition("/")[2])
        for item in of_kind(planned, "aws_eks_access_policy_association")
    }
    assert found == {
        ("ops", "AmazonEKSClusterAdminPolicy"),
        ("sre", "AmazonEKSClusterAdminPolicy"),
        ("dev", "AmazonEKSViewPolicy"),
    }


def test_without_a_place_for_results_there_is_no_role_for_them_and_without_logs_none_are_named(
    cluster: Workspace,
) -> None:
    planned = cluster.plan(
        {**VARIABLES["cluster"], "results_bucket": "", "namespace": "", "control_plane_logs": "none"}
    )
    assert export_of(planned) == {}
    assert not of_kind(planned, "aws_eks_cluster")[0]["enabled_cluster_log_types"]


def test_results_are_copied_from_the_default_namespace_and_logs_of_the_control_plane_are_named(
    cluster: Workspace,
) -> None:
    planned = cluster.plan({**VARIABLES["cluster"], "namespace": "", "control_plane_logs": "audit"})
    assert export_of(planned)["aws_eks_pod_identity_association"]["namespace"] == "default"
    assert of_kind(planned, "aws_eks_cluster")[0]["enabled_cluster_log_types"] == ["audit"]


def test_the_traffic_of_a_vpc_is_recorded_on_request_and_the_record_goes_with_it(network: Workspace) -> None:
    planned = network.plan({**VARIABLES["network"], "flow_logs": True, "kms_key_arn": KEY})
    (group,) = of_kind(planned, "aws_cloudwatch_log_group")
    assert (group["retention_in_days"], group["kms_key_id"]) == (30, KEY)
    network.apply()
    assert network.account.calls_of("aws_flow_log") == ["create"]
    (name,) = network.account.objects()["aws_cloudwatch_log_group"]
    (vpc,) = network.account.objects()["aws_vpc"]
    assert name == f"/aws/vpc-flow-log/{vpc}"
    assert network.plan({**VARIABLES["network"], "flow_logs": True, "kms_key_arn": KEY}) == {}
    network.destroy()
    assert network.account.objects() == {}


def test_a_key_of_ones_own_encrypts_what_lasts(nodes: Workspace) -> None:
    (disk,) = template(nodes, kms_key_arn=KEY, disk_throughput_mibps=1000)["block_device_mappings"]
    assert (disk["ebs"][0]["kms_key_id"], disk["ebs"][0]["throughput"], disk["ebs"][0]["iops"]) == (KEY, 1000, 4000)


def test_no_log_group_of_the_control_plane_is_made(lives: Mapping[str, Life]) -> None:
    assert of_kind(lives["cluster"].planned, "aws_cloudwatch_log_group") == []
    assert not of_kind(lives["cluster"].planned, "aws_eks_cluster")[0]["enabled_cluster_log_types"]


def test_core_nodes_stand_where_the_file_system_is(lives: Mapping[str, Life]) -> None:
    (group,) = of_kind(lives["cluster"].planned, "aws_eks_node_group")
    assert group["subnet_ids"] == ["subnet-storage"]


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"endpoint_public_access_cidrs": "anywhere"}, "Address ranges are written as 203.0.113.0/24"),
        ({"access_entries": '{"dev": "AmazonEKSViewPolicy"}'}, "Access entries are JSON"),
        ({"access_entries": "nonsense"}, "Access entries are JSON"),
        ({"admins": "ops"}, "Principals are written as arn:aws:iam::111122223333:role/ops"),
        ({"control_plane_logs": "everything"}, "Logs are none, all, or some of api, audit"),
        ({"support_type": "LONG"}, "Support is STANDARD or EXTENDED"),
        ({"results_bucket": "my-models"}, "A place for results is written as BUCKET/PREFIX"),
        ({"results_bucket": "s3://my-models/team"}, "A place for results is written as BUCKET/PREFIX"),
        ({"results_bucket": "my-models/team/*"}, "A place for results is written as BUCKET/PREFIX"),
    ],
)
def test_a_wrong_variable_of_a_cluster_is_refused_with_its_form(
    terraform_environment: Mapping[str, str], account: StubAccount, tmp_path: Path, variables: Variables, sentence: str
) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    texts = (ROOTS / "cluster" / "variables.tf").read_text(), (ROOTS / "cluster" / "export.tf").read_text()
    (folder / "variables.tf").write_text("\n\n".join(_VARIABLE.findall("\n".join(texts))))
    work = Workspace("registry", tmp_path / "work", account, terraform_environment)
    work.folder = folder
    assert sentence in work.refused_plan({**VARIABLES["cluster"], **variables})


def test_every_efa_interface_is_attached_and_the_group_is_the_roots_own(lives: Mapping[str, Life]) -> None:
    (made,) = of_kind(lives["nodes"].planned, "aws_launch_template")
    interfaces = [
        (item["network_card_index"], item["device_index"], item["interface_type"])
        for item in made["network_interfaces"]
    ]
    assert interfaces == [(0, 0, "efa"), (1, 1, "efa"), (2, 1, "efa"), (3, 1, "efa")]
    assert [item["group_name"] for item in made["placement"]] == ["nemo-gpu"]
    (group,) = of_kind(lives["nodes"].planned, "aws_eks_node_group")
    assert group["instance_types"] == ["p4de.24xlarge"]
    assert group["subnet_ids"] == ["subnet-storage"]
    assert group["labels"] == {"accelerator": "nvidia"}
    assert [item["effect"] for item in group["taint"]] == ["NO_SCHEDULE"]


def test_a_reservation_gets_no_placement_group_of_our_own(nodes: Workspace) -> None:
    planned = nodes.plan({**VARIABLES["nodes"], "capacity_reservation_id": "cr-0123456789abcdef0"})
    (made,) = of_kind(planned, "aws_launch_template")
    (reservation,) = made["capacity_reservation_specification"]
    assert reservation["capacity_reservation_target"][0]["capacity_reservation_id"] == "cr-0123456789abcdef0"
    assert len(made["network_interfaces"]) == 4
    assert made["placement"] == []
    assert of_kind(planned, "aws_placement_group") == []


def test_a_capacity_block_is_bought_in_the_placement_group_that_is_named(nodes: Workspace) -> None:
    variables = {"capacity_type": "CAPACITY_BLOCK", "capacity_reservation_id": "cr-0123456789abcdef0"}
    planned = nodes.plan({**VARIABLES["nodes"], **variables, "placement_group_name": "reserved"})
    (made,) = of_kind(planned, "aws_launch_template")
    assert [item["group_name"] for item in made["placement"]] == ["reserved"]
    assert [item["market_type"] for item in made["instance_market_options"]] == ["capacity-block"]
    assert made["instance_type"] == "p4de.24xlarge"
    assert of_kind(planned, "aws_placement_group") == []
    assert not of_kind(planned, "aws_eks_node_group")[0].get("instance_types")


def test_images_are_unpacked_on_local_disks_or_a_quick_volume(nodes: Workspace) -> None:
    made = template(nodes, efa=False)
    head, _, config = base64.b64decode(made["user_data"]).decode().partition("application/node.eks.aws\n\n---\n")
    assert head.startswith("MIME-Version: 1.0\n")
    document = load_document(config.partition("\n--//--")[0].encode(), file="user data").value
    assert document["kind"] == "NodeConfig"
    assert document["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}
    assert made["network_interfaces"] == []
    (volume,) = made["block_device_mappings"][0]["ebs"]
    assert (volume["volume_size"], volume["throughput"], volume["iops"]) == (500, 500, 3000)


def test_a_zone_without_the_instance_type_is_refused_before_anything_is_made(nodes: Workspace) -> None:
    said = nodes.refused_plan({**VARIABLES["nodes"], "subnet_ids": "subnet-elsewhere"})
    assert "us-west-2d has no p4de.24xlarge: it is offered in us-west-2a, us-west-2b." in said


def test_lustre_has_its_ports_both_ways(lives: Mapping[str, Life]) -> None:
    for kind in ("aws_vpc_security_group_ingress_rule", "aws_vpc_security_group_egress_rule"):
        ports = sorted((rule["from_port"], rule["to_port"]) for rule in of_kind(lives["filesystem"].planned, kind))
        assert ports == [(988, 988), (1018, 1023)]


def test_what_the_roots_give_and_read_is_in_the_interface_of_their_modules() -> None:
    interfaces = json.loads((FIXTURES / "modules.json").read_text())
    for root in ("cluster", "network"):
        text = (ROOTS / root / "main.tf").read_text()
        sources: dict[str, str] = {}
        for block in _MODULE.finditer(text):
            source, version = _SOURCE.findall(block["body"])[0]
            name = re.findall(r'"(\w+)"', block[0])[0]
            sources[name] = source
            given = set(_ARGUMENT.findall(block["body"])) - {"source", "version", "count", "for_each"}
            assert version == interfaces[source]["version"]
            assert given - set(interfaces[source]["variables"]) == set()
        everything = "".join(path.read_text() for path in (ROOTS / root).glob("*.tf"))
        read = {(name, output) for name, output in _OUTPUT.findall(everything) if name in sources}
        assert {pair for pair in read if pair[1] not in interfaces[sources[pair[0]]]["outputs"]} == set()


@pytest.mark.parametrize("root", ["cluster", "network"])
def test_the_modules_plan_what_was_recorded_of_the_real_ones(lives: Mapping[str, Life], root: str) -> None:
    recorded = json.loads((FIXTURES / "planned.json").read_text())[root]
    assert planned_facts(lives[root].planned) == recorded


def planned_facts(planned: Mapping[str, Change]) -> dict[str, dict[str, Any]]:
    """Return the modules' resources in a plan, reduced to the attributes in which stand-ins agree."""
    return {
        change.address: {name: change.after[name] for name in _FACTS if change.after.get(name) not in (None, [], {})}
        for change in planned.values()
        if change.address.startswith("module.")
    }
