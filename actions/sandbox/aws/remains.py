"""Resources of the account beside the cluster: volumes, interfaces, roles, log groups, repositories.

They exist from a call that makes them to one that deletes them. Nothing of the sandbox makes any, so a rehearsal leaves
none; a test plants them, and an audit has to find them. Other kinds that an audit asks for are empty lists.

Source: botocore's service models `ec2` (2016-11-15), `iam` (2010-05-08), `logs` (2014-03-28), `ecr` (2015-09-21);
compared by calling it with boto3.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from actions.base.clock import Clock
from actions.sandbox.aws.capacity import ApiCallError, Form, numbers_of, values_of
from actions.sandbox.aws.permissions import RolePolicies
from actions.sandbox.model.options import SandboxOptions

IAM_VERSION = "2010-05-08"
_IAM_NAMESPACE = "https://iam.amazonaws.com/doc/2010-05-08/"
_LOGS = "Logs_20140328"
_ECR = "AmazonEC2ContainerRegistry_V20150921"

JsonAnswer = Callable[[Mapping[str, Any]], dict[str, Any]]


class PlantedResource(msgspec.Struct, frozen=True):
    """One resource: `kind` as in its ARN, `name` its id."""

    kind: str
    name: str
    arn: str
    made_at: float
    """Seconds since the epoch."""
    tags: dict[str, str]
    facts: dict[str, str] = msgspec.field(default_factory=dict)


class Remains:
    """The resources of the account that calls have made and not deleted.

    Args:
        options: Region and account.
        clock: The time at which they are made.
        policies: Of roles.
    """

    def __init__(self, options: SandboxOptions, clock: Clock, policies: RolePolicies) -> None:
        self._options = options
        self._clock = clock
        self._policies = policies
        self._held: dict[tuple[str, str], PlantedResource] = {}

    def ec2_calls(self) -> dict[str, Callable[[Form], str]]:
        """Return the calls of EC2 by action; each answers with the body of its XML."""
        empty = {
            "DescribeNatGateways": "natGatewaySet",
            "DescribeSecurityGroups": "securityGroupInfo",
            "DescribeVpcEndpoints": "vpcEndpointSet",
        }
        return {
            **{action: _always(f"<{name}/>") for action, name in empty.items()},
            "CreateVolume": self._create_volume,
            "DescribeVolumes": self._describe_volumes,
            "DeleteVolume": lambda form: self._delete(form, "volume", "VolumeId"),
            "CreateNetworkInterface": self._create_interface,
            "DescribeNetworkInterfaces": self._describe_interfaces,
            "DeleteNetworkInterface": lambda form: self._delete(form, "network-interface", "NetworkInterfaceId"),
        }

    def iam_answer(self, form: Form, request_id: str) -> tuple[int, str]:
        """Return status and body for a query to IAM. An action that is not served is refused by name."""
        action = form.get("Action", "")
        calls: dict[str, Callable[[Form], str]] = {
            "CreateRole": self._create_role,
            "DeleteRole": self._delete_role,
            "GetRole": self._get_role,
            "ListRoles": self._list_roles,
            "ListRoleTags": self._list_role_tags,
            "ListPolicies": _always("<Policies/><IsTruncated>false</IsTruncated>"),
            "ListInstanceProfiles": _always("<InstanceProfiles/><IsTruncated>false</IsTruncated>"),
            "ListOpenIDConnectProviders": _always("<OpenIDConnectProviderList/>"),
            "PutRolePolicy": self._policies.put,
            "SimulatePrincipalPolicy": self._policies.simulate,
        }
        metadata = f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        try:
            if action not in calls:
                raise ApiCallError("InvalidAction", f"The sandbox does not serve {action}.")
            body = calls[action](form)
        except ApiCallError as refused:
            detail = _fields(Type="Sender", Code=refused.code, Message=str(refused))
            body = f"<Error>{detail}</Error><RequestId>{request_id}</RequestId>"
            status = 404 if refused.code == "NoSuchEntity" else 400
            return status, f'<ErrorResponse xmlns="{_IAM_NAMESPACE}">{body}</ErrorResponse>'
        result = f"<{action}Result>{body}</{action}Result>"
        return 200, f'<{action}Response xmlns="{_IAM_NAMESPACE}">{result}{metadata}</{action}Response>'

    def tagged(self) -> list[tuple[str, Mapping[str, str]]]:
        """Return ARNs and tags as the tagging API lists them: no role, and nothing without tags."""
        return [(one.arn, one.tags) for one in self._held.values() if one.tags and one.kind != "role"]

    def json_calls(self) -> dict[str, JsonAnswer]:
        """Return the calls of CloudWatch Logs and ECR by `X-Amz-Target`."""
        return {
            f"{_LOGS}.CreateLogGroup": self._create_log_group,
            f"{_LOGS}.DescribeLogGroups": self._describe_log_groups,
            f"{_LOGS}.DeleteLogGroup": self._delete_log_group,
            f"{_ECR}.CreateRepository": self._create_repository,
            f"{_ECR}.DescribeRepositories": self._describe_repositories,
            f"{_ECR}.DeleteRepository": self._delete_repository,
        }

    def _create_volume(self, form: Form) -> str:
        facts = {"size": form.get("Size", "1"), "volumeType": form.get("VolumeType", "gp2")}
        made = self._make("ec2", "volume", f"vol-{_id()}", _tag_specification(form), facts)
        return _fields(volumeId=made.name, status="creating", **facts)

    def _describe_volumes(self, form: Form) -> str:
        items = [
            _fields(volumeId=one.name, status="available", **one.facts)
            for one in self._asked(form, "volume", "VolumeId")
        ]
        return f"<volumeSet>{_items(items)}</volumeSet>"

    def _create_interface(self, form: Form) -> str:
        facts = {"description": form.get("Description", ""), "subnetId": form.get("SubnetId", "")}
        made = self._make("ec2", "network-interface", f"eni-{_id()}", _tag_specification(form), facts)
        return f"<networkInterface>{_fields(networkInterfaceId=made.name, **facts)}</networkInterface>"

    def _describe_interfaces(self, form: Form) -> str:
        asked = self._asked(form, "network-interface", "NetworkInterfaceId")
        items = [_fields(networkInterfaceId=one.name, status="available", **one.facts) for one in asked]
        return f"<networkInterfaceSet>{_items(items)}</networkInterfaceSet>"

    def _delete(self, form: Form, kind: str, key: str) -> str:
        self._drop(kind, form.get(key, ""), f"Invalid{key}.NotFound")
        return "<return>true</return>"

    def _create_role(self, form: Form) -> str:
        numbers = numbers_of(form, "Tags.member")
        tags = {form[f"Tags.member.{n}.Key"]: form.get(f"Tags.member.{n}.Value", "") for n in numbers}
        return _role(self._make("iam", "role", form.get("RoleName", ""), tags))

    def _get_role(self, form: Form) -> str:
        return _role(self._known("role", form.get("RoleName", ""), "NoSuchEntity"))

    def _delete_role(self, form: Form) -> str:
        self._drop("role", form.get("RoleName", ""), "NoSuchEntity")
        return ""

    def _list_roles(self, _form: Form) -> str:
        members = "".join(f"<member>{_role_fields(one)}</member>" for one in self._held.values() if one.kind == "role")
        return f"<Roles>{members}</Roles><IsTruncated>false</IsTruncated>"

    def _list_role_tags(self, form: Form) -> str:
        known = self._known("role", form.get("RoleName", ""), "NoSuchEntity")
        return f"{_iam_tags(known)}<IsTruncated>false</IsTruncated>"

    def _create_log_group(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self._make("logs", "log-group", str(asked.get("logGroupName", "")), dict(asked.get("tags") or {}))
        return {}

    def _describe_log_groups(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        prefix = str(asked.get("logGroupNamePrefix") or "")
        groups = [one for one in self._held.values() if one.kind == "log-group" and one.name.startswith(prefix)]
        return {
            "logGroups": [
                {
                    "logGroupName": one.name,
                    "arn": f"{one.arn}:*",
                    "creationTime": int(one.made_at * 1000),
                    "storedBytes": 0,
                }
                for one in groups
            ]
        }

    def _delete_log_group(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self._drop("log-group", str(asked.get("logGroupName", "")), "ResourceNotFoundException")
        return {}

    def _create_repository(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        tags = {str(tag["Key"]): str(tag["Value"]) for tag in asked.get("tags") or ()}
        return {"repository": _repository(self._make("ecr", "repository", str(asked["repositoryName"]), tags))}

    def _describe_repositories(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        names = [str(name) for name in asked.get("repositoryNames") or ()]
        names = names or [one.name for one in self._held.values() if one.kind == "repository"]
        known = [self._known("repository", name, "RepositoryNotFoundException") for name in names]
        return {"repositories": [_repository(one) for one in known]}

    def _delete_repository(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self._drop("repository", str(asked.get("repositoryName", "")), "RepositoryNotFoundException")
        return {}

    def _make(
        self, service: str, kind: str, name: str, tags: dict[str, str], facts: dict[str, str] | None = None
    ) -> PlantedResource:
        region = "" if service == "iam" else self._options.region
        separator = ":" if kind == "log-group" else "/"
        arn = f"arn:aws:{service}:{region}:{self._options.account}:{kind}{separator}{name}"
        made = PlantedResource(kind, name, arn, self._clock.now().timestamp(), tags, facts or {})
        self._held[kind, name] = made
        return made

    def _known(self, kind: str, name: str, code: str) -> PlantedResource:
        if (kind, name) not in self._held:
            raise ApiCallError(code, f"The {kind} '{name}' does not exist.")
        return self._held[kind, name]

    def _drop(self, kind: str, name: str, code: str) -> None:
        self._known(kind, name, code)
        del self._held[kind, name]

    def _asked(self, form: Form, kind: str, key: str) -> list[PlantedResource]:
        """Return the resources of a kind that a query names, or all of them; none of them is in a VPC."""
        names = values_of(form, key)
        if names:
            return [self._known(kind, name, f"Invalid{key}.NotFound") for name in names]
        return [] if numbers_of(form, "Filter") else [one for one in self._held.values() if one.kind == kind]


def _always(body: str) -> Callable[[Form], str]:
    return lambda _form: body


def _id() -> str:
    return secrets.token_hex(9)[:17]


def _fields(**values: str) -> str:
    return "".join(f"<{name}>{escape(value)}</{name}>" for name, value in values.items())


def _items(bodies: list[str]) -> str:
    return "".join(f"<item>{body}</item>" for body in bodies)


def _tag_specification(form: Form) -> dict[str, str]:
    prefix = "TagSpecification.1.Tag"
    return {form[f"{prefix}.{n}.Key"]: form.get(f"{prefix}.{n}.Value", "") for n in numbers_of(form, prefix)}


def _role(one: PlantedResource) -> str:
    return f"<Role>{_role_fields(one)}{_iam_tags(one)}</Role>"


def _role_fields(one: PlantedResource) -> str:
    return _fields(Path="/", RoleName=one.name, RoleId=f"AROA{one.name}", Arn=one.arn, CreateDate=_moment(one))


def _moment(one: PlantedResource) -> str:
    return datetime.fromtimestamp(one.made_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _iam_tags(one: PlantedResource) -> str:
    members = "".join(f"<member>{_fields(Key=key, Value=value)}</member>" for key, value in one.tags.items())
    return f"<Tags>{members}</Tags>"


def _repository(one: PlantedResource) -> dict[str, Any]:
    return {"repositoryName": one.name, "repositoryArn": one.arn, "createdAt": one.made_at}
