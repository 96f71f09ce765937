"""The resources and outputs of a root, by its `simulation.json`; its node group is made in the account of the sandbox.

Without `AWS_ENDPOINT_URL` none is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import BlueprintError, RefusedError, UnreachableError
from actions.base.files import read_file
from actions.base.untrusted import one_line

SIMULATION_FILE = "simulation.json"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"

Variables: TypeAlias = Mapping[str, str | int | float | bool]

_REGION = "us-west-2"
"""Of no account: the address names the cluster."""
_WAITER = {"Delay": 1, "MaxAttempts": 300}
_SHOWN_CHARACTERS = 500
_PART = re.compile(r"\$\{([a-z][a-z0-9_]*)\}")
_ACCELERATORS = {"AL2023_x86_64_NVIDIA": "nvidia", "AL2023_x86_64_NEURON": "neuron"}


class Simulation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `simulation.json`. In outputs `${name}` stands for a variable."""

    resources: tuple[str, ...]
    outputs: dict[str, str]
    node_group: str = ""
    """The address of a resource that is a node group of EKS, by the variables of the shared root `nodes`."""

    def outputs_of(self, variables: Variables) -> dict[str, str]:
        """Return the outputs for the values of the variables; missing ones are empty."""
        return {name: filled(text, variables) for name, text in self.outputs.items()}


def load_simulation(folder: Path) -> Simulation:
    """Return the simulation of the root in `folder`.

    Raises:
        BlueprintError: The root cannot be simulated.
    """
    path = folder / SIMULATION_FILE
    try:
        return decode_json(read_file(path), Simulation)
    except OSError as error:
        raise BlueprintError("this root cannot be simulated: it has no simulation.json.", file=str(path)) from error
    except msgspec.DecodeError as error:
        raise BlueprintError(f"{error}.", file=str(path)) from error


def filled(text: str, variables: Variables) -> str:
    """Return `text` with every `${name}` replaced; missing ones by nothing."""
    return _PART.sub(lambda match: str(variables.get(match[1], "")), text)


class RootNodeGroup:
    """The node group of a root, in the account at `AWS_ENDPOINT_URL`.

    Args:
        variables: The root's.
    """

    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self._named = {
            "clusterName": str(variables["cluster_name"]),
            "nodegroupName": str(variables["node_group_name"]),
        }

    def make(self) -> None:
        """Create it, and wait until it is active.

        Raises:
            RefusedError: It was refused, failed, or is not active in time.
            UnreachableError: No answer.
        """
        self._ask("create_nodegroup", "nodegroup_active", _body(self._variables))

    def unmake(self) -> None:
        """Delete it, and wait until it is gone. Safe to repeat.

        Raises:
            RefusedError: It was refused, or still exists.
            UnreachableError: No answer.
        """
        self._ask("delete_nodegroup", "nodegroup_deleted", {})

    def _ask(self, call: str, end: str, body: Mapping[str, Any]) -> None:
        if not os.environ.get(ENDPOINT_VARIABLE):
            return
        from botocore.exceptions import BotoCoreError, ClientError, WaiterError
        from botocore.session import Session

        client = Session().create_client("eks", region_name=_REGION)
        try:
            with suppress(client.exceptions.ResourceNotFoundException):
                getattr(client, call)(**self._named, **body)
            client.get_waiter(end).wait(**self._named, WaiterConfig=_WAITER)
        except WaiterError as error:
            raise RefusedError(f"{error}: {_words(error.last_response)}") from error
        except ClientError as error:
            raise RefusedError(str(error)) from error
        except BotoCoreError as error:
            raise UnreachableError(str(error)) from error


def _body(variables: Variables) -> dict[str, Any]:
    given = {name: str(value) for name, value in variables.items()}
    accelerator = _ACCELERATORS.get(given["ami_type"])
    return {
        "scalingConfig": dict.fromkeys(("minSize", "maxSize", "desiredSize"), variables["node_count"]),
        "instanceTypes": [given["instance_type"]],
        "amiType": given["ami_type"],
        "capacityType": given.get("capacity_type", "ON_DEMAND"),
        "subnets": [subnet for subnet in given["subnet_ids"].split(",") if subnet],
        "nodeRole": f"arn:aws:iam::111122223333:role/{given['cluster_name']}-{given['node_group_name']}",
        "labels": ({"accelerator": accelerator} if accelerator else {}) | _json_of("labels", given, {}),
        "taints": _json_of("taints", given, []),
        "tags": {
            "eksml-run": given["run_id"],
            "efa": given.get("efa", "false").lower(),
            "capacity-reservation-id": given.get("capacity_reservation_id", ""),
        },
    }


def _json_of(name: str, given: Mapping[str, str], default: Any) -> Any:
    try:
        return msgspec.json.decode(given[name]) if given.get(name) else default
    except msgspec.DecodeError as error:
        raise BlueprintError(f"The variable {name} is not JSON: {error}.") from error


def _words(answer: object) -> str:
    return one_line(str(answer))[:_SHOWN_CHARACTERS]
