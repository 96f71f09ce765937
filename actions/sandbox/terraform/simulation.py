"""The resources and outputs of a root, by its `simulation.json`; its node group is made in the account of the sandbox.

Its calls go to `AWS_ENDPOINT_URL` with the key that Terraform's provider would find; without the variable none is made.
"""

from __future__ import annotations

import configparser
import os
import re
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import BlueprintError, ConfigError, RefusedError, UnreachableError
from actions.base.files import read_file
from actions.base.untrusted import one_line

SIMULATION_FILE = "simulation.json"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
WAIT_SECONDS = 300.0
LOOK_SECONDS = 0.5

Variables: TypeAlias = Mapping[str, str | int | float | bool]

_CALL_SECONDS = 20.0
_GONE = 404
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
        self._groups = filled("/clusters/${cluster_name}/node-groups", variables)
        self._path = f"{self._groups}/{variables['node_group_name']}"

    def make(self) -> None:
        """Create it, and wait until it is active.

        Raises:
            RefusedError: It was refused, failed, or is not active in time.
            UnreachableError: No answer.
        """
        if not os.environ.get(ENDPOINT_VARIABLE):
            return
        _ask("POST", self._groups, _body(self._variables))
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            _, answer = _ask("GET", self._path)
            state = answer.get("nodegroup", {}).get("status")
            if state == "ACTIVE":
                return
            if state == "CREATE_FAILED":
                raise RefusedError(f"{self._path} is {state}: {_words(answer)}")
            _pause()
        raise RefusedError(f"{self._path} is not ACTIVE after {WAIT_SECONDS:.0f} s.")

    def unmake(self) -> None:
        """Delete it, and wait until it is gone. Safe to repeat.

        Raises:
            RefusedError: It was refused, or still exists.
            UnreachableError: No answer.
        """
        if not os.environ.get(ENDPOINT_VARIABLE):
            return
        status, _ = _ask("DELETE", self._path)
        end = time.monotonic() + WAIT_SECONDS
        while status != _GONE:
            if time.monotonic() >= end:
                raise RefusedError(f"{self._path} still exists after {WAIT_SECONDS:.0f} s.")
            _pause()
            status, _ = _ask("GET", self._path)


def _pause() -> None:
    time.sleep(LOOK_SECONDS)  # noqa: TID251 - a program that has nothing else to do


def _body(variables: Variables) -> dict[str, Any]:
    given = {name: str(value) for name, value in variables.items()}
    accelerator = _ACCELERATORS.get(given["ami_type"])
    return {
        "nodegroupName": given["node_group_name"],
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


def _ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
    endpoint = os.environ[ENDPOINT_VARIABLE].rstrip("/")
    place = urlsplit(endpoint + path)
    headers = {"Content-Type": "application/json", "Authorization": _signed_by()}
    connection = HTTPConnection(place.hostname or "", place.port, timeout=_CALL_SECONDS)
    try:
        connection.request(method, place.path, None if body is None else msgspec.json.encode(body), headers)
        reply = connection.getresponse()
        status, text = reply.status, reply.read()
    except (OSError, HTTPException) as error:
        raise UnreachableError(f"{endpoint} does not answer: {error}.") from error
    finally:
        connection.close()
    if status >= 400 and status != _GONE:
        raise RefusedError(f"{method} {path} was answered with {status}: {_words(text.decode(errors='replace'))}")
    try:
        return status, msgspec.json.decode(text or b"{}")
    except msgspec.DecodeError as error:
        raise UnreachableError(f"{endpoint} does not answer with JSON.") from error


def _signed_by() -> str:
    """Return the head of a signature, with the key's id: more of it no sandbox reads."""
    key = os.environ.get("AWS_ACCESS_KEY_ID") or _key_of_file(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", ""))
    return f"AWS4-HMAC-SHA256 Credential={key}/"


def _key_of_file(file: str) -> str:
    read = configparser.ConfigParser(interpolation=None)
    try:
        read.read_string(read_file(Path(file)).decode() if file else "")
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        hint = "Correct AWS_SHARED_CREDENTIALS_FILE."
        raise ConfigError(f"{file} holds no readable AWS credentials.", hint=hint) from error
    return read.get(os.environ.get("AWS_PROFILE") or "default", "aws_access_key_id", fallback="")


def _words(answer: object) -> str:
    return one_line(str(answer))[:_SHOWN_CHARACTERS]
