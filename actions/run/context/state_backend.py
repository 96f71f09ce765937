"""Terraform states of a run with a store: their place, and the machines that their locks may outlive."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.files import read_file
from actions.cloud.buckets import bucket_region
from actions.run.context.store_address import parse_store, run_key
from actions.run.state.view import RunView
from actions.terraform.backend import OVERRIDE_FILE, StateBackend, asks_aws, own_backend
from actions.terraform.state import GoneHolder


class _S3(msgspec.Struct):
    bucket: str
    region: str


class _Backend(msgspec.Struct):
    s3: _S3


class _Terraform(msgspec.Struct):
    backend: _Backend


class _Override(msgspec.Struct):
    """The part of our own file that is read back."""

    terraform: _Terraform


def state_backend_of(
    view: RunView,
    stage: str,
    *,
    work: Path,
    root: Path,
    environment: Mapping[str, str],
    find_region: Callable[[str], str] = bucket_region,
) -> StateBackend | None:
    """Return where the state of a stage is; `None` if the run has no store, or the root a backend of its own.

    Blocks: fetches the region of the bucket, once for each working directory.

    Args:
        view: The run.
        stage: Its stage.
        work: The stage's working directory; it may not exist.
        root: The stage's root.
        environment: Variables of the run's processes in addition to this process' own.
        find_region: Returns the region of a bucket.

    Raises:
        ConfigError: The store is not one.
        ConsoleError: The bucket does not exist, or S3 does not answer.
    """
    if not view.store or own_backend(root):
        return None
    store = parse_store(view.store)
    bucket, key = store.bucket, store.key(run_key(view.id, f"terraform/{stage}.tfstate"))
    if not asks_aws({**os.environ, **environment}):
        return StateBackend(bucket, key, view.cluster.region, is_aws=False)
    return StateBackend(bucket, key, _known_region(work, bucket) or find_region(bucket))


def _known_region(work: Path, bucket: str) -> str:
    """Return the region by which the working directory was configured; empty if it was not, or for another bucket."""
    try:
        found = decode_json(read_file(work / OVERRIDE_FILE), _Override).terraform.backend.s3
    except (OSError, msgspec.DecodeError):
        return ""
    return found.region if found.bucket == bucket else ""


def gone_holders(view: RunView) -> tuple[GoneHolder, ...]:
    """Return the machines whose locks may be removed, as they do not exist any more."""
    return tuple(GoneHolder(machine.who, machine.at, machine.since) for machine in view.gone_machines)
