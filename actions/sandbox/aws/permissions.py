"""Policies of roles in the sandbox's account, and what IAM's simulator makes of them.

A role without a policy may do everything, as the sandbox's operator may. With one, it may do what an Allow statement
names and no Deny statement does; a condition holds if the simulation brings the keys that it is about.

Source: botocore's service model `iam` (2010-05-08); IAM user guide, "Policy evaluation logic".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from actions.base.decoding import decode_json
from actions.sandbox.aws.capacity import ApiCallError, Form, numbers_of

_ALLOWED, _EXPLICIT, _IMPLICIT = "allowed", "explicitDeny", "implicitDeny"


class RolePolicies:
    """The inline policies of roles, by role and name."""

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, Mapping[str, Any]]] = {}

    def put(self, form: Form) -> str:
        """`PutRolePolicy`: the body of its answer."""
        try:
            document = decode_json(form.get("PolicyDocument", ""), dict[str, Any])
        except msgspec.MsgspecError as error:
            raise ApiCallError("MalformedPolicyDocument", "The policy is not in the valid JSON format.") from error
        self._documents.setdefault(form.get("RoleName", ""), {})[form.get("PolicyName", "")] = document
        return ""

    def simulate(self, form: Form) -> str:
        """`SimulatePrincipalPolicy` for a role or user: the body of its answer, all on one page."""
        arn = form.get("PolicySourceArn", "")
        kind, _, name = arn.rpartition(":")[2].partition("/")
        if kind not in ("role", "user"):
            raise ApiCallError(
                "InvalidInput", f"Invalid Entity Arn: {arn} does not clearly define entity type and name."
            )
        statements = [one for document in self._documents.get(name, {}).values() for one in document["Statement"]]
        keys = frozenset(_members(form, "ContextEntries", ".ContextKeyName"))
        resources = list(_members(form, "ResourceArns")) or ["*"]
        results = [
            _result(action, {one: _decision(statements, action, one, keys) for one in resources})
            for action in _members(form, "ActionNames")
        ]
        return f"<EvaluationResults>{''.join(results)}</EvaluationResults><IsTruncated>false</IsTruncated>"


def _members(form: Form, name: str, rest: str = "") -> Iterator[str]:
    yield from (form[f"{name}.member.{n}{rest}"] for n in numbers_of(form, f"{name}.member"))


def _decision(statements: Sequence[Mapping[str, Any]], action: str, resource: str, keys: frozenset[str]) -> str:
    if not statements:
        return _ALLOWED
    effects = {str(one["Effect"]) for one in statements if _matches(one, action, resource, keys)}
    if "Deny" in effects:
        return _EXPLICIT
    return _ALLOWED if "Allow" in effects else _IMPLICIT


def _matches(statement: Mapping[str, Any], action: str, resource: str, keys: frozenset[str]) -> bool:
    asked = {key for operator in (statement.get("Condition") or {}).values() for key in operator}
    return (
        any(fnmatchcase(action.lower(), pattern.lower()) for pattern in _listed(statement.get("Action")))
        and any(fnmatchcase(resource, pattern) for pattern in _listed(statement.get("Resource")))
        and asked <= keys
    )


def _listed(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _result(action: str, decisions: Mapping[str, str]) -> str:
    worst = next((one for one in (_EXPLICIT, _IMPLICIT) if one in decisions.values()), _ALLOWED)
    members = "".join(
        f"<member><EvalResourceName>{escape(name)}</EvalResourceName>"
        f"<EvalResourceDecision>{decision}</EvalResourceDecision></member>"
        for name, decision in decisions.items()
    )
    return (
        f"<member><EvalActionName>{escape(action)}</EvalActionName><EvalResourceName>*</EvalResourceName>"
        f"<EvalDecision>{worst}</EvalDecision><ResourceSpecificResults>{members}</ResourceSpecificResults></member>"
    )
