"""A local Terraform state, read without the `terraform` program, e.g. on a bastion that does not have it.

Read by python-terraform's `Tfstate`, which for a local state file is right.
"""

from __future__ import annotations

from pathlib import Path

from python_terraform.tfstate import Tfstate

from actions.base.errors import FormatError
from actions.base.untrusted import one_line


def addresses_in(path: Path) -> tuple[str, ...]:
    """Addresses of the managed resources in a state file; empty if the file is not there.

    Raises:
        FormatError: It is no state.
    """
    try:
        loaded = vars(Tfstate.load_file(str(path)))
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is no Terraform state.", hint="Look for its .backup file.") from error
    found = []
    for resource in loaded.get("resources") or ():
        if resource.get("mode") == "managed":
            found.extend(_addresses(resource))
    return tuple(sorted(one_line(address) for address in found))


def _addresses(resource: dict[str, object]) -> list[str]:
    module = f"{resource['module']}." if resource.get("module") else ""
    base = f"{module}{resource.get('type')}.{resource.get('name')}"
    instances = resource.get("instances")
    keys = [item.get("index_key") for item in instances] if isinstance(instances, list) else []
    return [base if key is None else f'{base}["{key}"]' if isinstance(key, str) else f"{base}[{key}]" for key in keys]
