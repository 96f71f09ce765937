"""`eksml-tui sandbox`: the embedded cluster in the foreground, or the faults of a running one."""

from __future__ import annotations

import os
from argparse import Namespace

from actions.base.errors import MissingError
from actions.base.files import private_directory
from actions.base.process import own_module
from actions.base.proxies import past_proxies
from actions.sandbox.locate import RunningSandbox, find_sandbox, sandbox_folder

DEMO_NAME = "demo"
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip


def run(options: Namespace) -> int:
    """Become the sandbox process, whose first line of output is its kubeconfig's path; or list or change its faults."""
    return _faults(options) if options.verb == "faults" else _serve(options)


def environment_of(sandbox: RunningSandbox, region: str) -> dict[str, str]:
    """Return the environment variables with which AWS clients reach the sandbox instead of AWS."""
    return {
        "AWS_ENDPOINT_URL": sandbox.process.aws_endpoint_url,
        "AWS_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": str(sandbox.credentials),
        "AWS_PROFILE": "default",
        "AWS_DEFAULT_PROFILE": "default",
        **past_proxies(os.environ),
        **dict.fromkeys(_CREDENTIALS, ""),  # empty: those of the operator are not for the sandbox
    }


def _faults(options: Namespace) -> int:
    from actions.sandbox.faults.client import control_faults

    found = find_sandbox(options.name)
    if found is None:
        raise MissingError(f"Sandbox {options.name} is not running.", hint="Use --name demo for the sandbox of --demo.")
    for fault in control_faults(found.kubeconfig, options.words):
        print(fault.line())  # noqa: T201 - the answer
    return 0


def _serve(options: Namespace) -> int:
    folder = private_directory(sandbox_folder(options.name))
    argv = own_module(
        "actions.sandbox",
        "--state", str(folder),
        "--name", options.name,
        "--port", str(options.port),
        "--foreground",
    )  # fmt: skip
    if options.scale:
        argv += ["--scale", options.scale]
    if options.speed is not None:
        argv += ["--speed", f"{options.speed:g}"]
    os.execv(argv[0], argv)  # noqa: S606 - argv is ours, and there is no shell
