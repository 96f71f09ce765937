"""EC2 answers: rules of security groups, which exist under any id, and the data of `aws.capacity`.

Source: botocore's service model `ec2` (2016-11-15); compared by calling it with boto3.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from xml.sax.saxutils import escape

import msgspec

from actions.sandbox.aws.capacity import ApiCallError, Form, numbers_of, values_of

VERSION = "2016-11-15"
"""The version of the API; a query with another version is for another service."""

_NAMESPACE = f"http://ec2.amazonaws.com/doc/{VERSION}/"
_GROUP = re.compile(r"^sg-[0-9a-f]{8,17}$")


class SecurityGroupRule(msgspec.Struct, frozen=True):
    """A rule of one group about another."""

    id: str
    group: str
    is_egress: bool
    protocol: str
    peer: str
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class SecurityGroups:
    """The rules of all groups of the account, as far as calls have made them.

    Args:
        others: EC2's calls that are not about rules, by action; each answers with the body of its XML.
    """

    def __init__(self, others: Mapping[str, Callable[[Form], str]] | None = None) -> None:
        self._rules: dict[str, SecurityGroupRule] = {}
        self._others = others or {}

    def __iter__(self) -> Iterator[SecurityGroupRule]:
        return iter(list(self._rules.values()))

    def answer(self, form: Form, request_id: str) -> tuple[int, str]:
        """Return status and body for a query. Every action that is not served is refused by name."""
        action = form.get("Action", "")
        calls: dict[str, Callable[[Form], str]] = {
            "DescribeSecurityGroupRules": self._describe,
            "AuthorizeSecurityGroupIngress": self._authorize,
            "AuthorizeSecurityGroupEgress": self._authorize,
            "RevokeSecurityGroupIngress": self._revoke,
            "RevokeSecurityGroupEgress": self._revoke,
            **self._others,
        }
        try:
            if action not in calls:
                raise ApiCallError("InvalidAction", f"The sandbox does not serve {action or 'this request'}.")
            body = calls[action](form)
        except ApiCallError as refused:
            error = f"<Error><Code>{refused.code}</Code><Message>{escape(str(refused))}</Message></Error>"
            return 400, f"<Response><Errors>{error}</Errors><RequestID>{request_id}</RequestID></Response>"
        name = f"{action}Response"
        return 200, f'<{name} xmlns="{_NAMESPACE}"><requestId>{request_id}</requestId>{body}</{name}>'

    def _describe(self, form: Form) -> str:
        filters = {form[f"Filter.{n}.Name"]: values_of(form, f"Filter.{n}.Value") for n in numbers_of(form, "Filter")}
        groups = filters.get("group-id", [])
        for group in groups:
            _require_group(group)
        asked = values_of(form, "SecurityGroupRuleId")
        for rule_id in asked:
            self._require_rule(rule_id)
        found = [rule for rule in self if (not groups or rule.group in groups) and (not asked or rule.id in asked)]
        return f"<securityGroupRuleSet>{''.join(map(_rule_xml, found))}</securityGroupRuleSet>"

    def _authorize(self, form: Form) -> str:
        group, is_egress = form.get("GroupId", ""), form["Action"].endswith("Egress")
        _require_group(group)
        made = [self._made(form, number, group, is_egress=is_egress) for number in numbers_of(form, "IpPermissions")]
        for rule in made:
            self._rules[rule.id] = rule
        rules = "".join(map(_rule_xml, made))
        return f"<return>true</return><securityGroupRuleSet>{rules}</securityGroupRuleSet>"

    def _made(self, form: Form, number: int, group: str, *, is_egress: bool) -> SecurityGroupRule:
        protocol = form.get(f"IpPermissions.{number}.IpProtocol", "-1")
        peer = form.get(f"IpPermissions.{number}.Groups.1.GroupId", "")
        if any(
            (rule.group, rule.is_egress, rule.protocol, rule.peer) == (group, is_egress, protocol, peer)
            for rule in self
        ):
            raise ApiCallError("InvalidPermission.Duplicate", "the specified rule already exists")
        tags = {
            form[f"TagSpecification.1.Tag.{n}.Key"]: form.get(f"TagSpecification.1.Tag.{n}.Value", "")
            for n in numbers_of(form, "TagSpecification.1.Tag")
        }
        return SecurityGroupRule(f"sgr-{secrets.token_hex(9)[:17]}", group, is_egress, protocol, peer, tags)

    def _revoke(self, form: Form) -> str:
        for rule_id in values_of(form, "SecurityGroupRuleId"):
            self._require_rule(rule_id)
            del self._rules[rule_id]
        return "<return>true</return>"

    def _require_rule(self, rule_id: str) -> None:
        if rule_id not in self._rules:
            message = f"The security group rule ID '{rule_id}' does not exist"
            raise ApiCallError("InvalidSecurityGroupRuleId.NotFound", message)


def _rule_xml(rule: SecurityGroupRule) -> str:
    tags = "".join(
        f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>" for key, value in rule.tags.items()
    )
    return (
        f"<item><securityGroupRuleId>{rule.id}</securityGroupRuleId><groupId>{rule.group}</groupId>"
        f"<isEgress>{str(rule.is_egress).lower()}</isEgress><ipProtocol>{escape(rule.protocol)}</ipProtocol>"
        f"<fromPort>-1</fromPort><toPort>-1</toPort>"
        f"<referencedGroupInfo><groupId>{escape(rule.peer)}</groupId></referencedGroupInfo>"
        f"<tagSet>{tags}</tagSet></item>"
    )


def _require_group(group: str) -> None:
    if _GROUP.match(group) is None:
        raise ApiCallError("InvalidGroup.NotFound", f"The security group '{group}' does not exist")
