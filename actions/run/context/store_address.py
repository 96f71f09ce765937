"""The address of a store, and the keys of a run in it.

`PREFIX/runs/RUN_ID/lease.json`                          the run in a few words, who carries it out, its newest state
`…/journal/FIRST_SEQ.jsonl`                              records of the journal, from that number on
`…/files/NAME`                                           small files of the run's folder
`…/output/STAGE/STREAM/NAME`                             a segment of output, or the open end of a stream
`…/terraform/STAGE.tfstate`                              written by Terraform's own s3 backend
"""

from __future__ import annotations

import re

import msgspec

from actions.base.errors import ConfigError, UsageError
from actions.base.names import is_segment

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()-]+(?:/[A-Za-z0-9!_.*'()-]+)*")
_MOST_PREFIX = 200


class StoreAddress(msgspec.Struct, frozen=True):
    """The address of a store, `s3://BUCKET/PREFIX`."""

    bucket: str
    prefix: str
    """Without slashes at its ends; may be empty."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    def key(self, name: str) -> str:
        """Return the key of a name in the store, as S3 has it."""
        return f"{self.prefix}/{name}" if self.prefix else name


def parse_store(text: str) -> StoreAddress:
    """Read `s3://BUCKET/PREFIX`.

    Raises:
        UsageError: It is something else.
    """
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    is_good = text.startswith("s3://") and _BUCKET.fullmatch(bucket) and ".." not in bucket
    if not is_good or (prefix and not _PREFIX.fullmatch(prefix)) or len(prefix) > _MOST_PREFIX or "../" in f"{prefix}/":
        raise UsageError(f"{text[:80]!r} is not a store for runs.", hint="Write s3://BUCKET or s3://BUCKET/PREFIX.")
    return StoreAddress(bucket, prefix)


def run_key(run_id: str, name: str = "") -> str:
    """Return the name of a run's object in its store; with an empty `name` the prefix of all of them.

    Raises:
        ConfigError: The id cannot be part of a key.
    """
    if not is_segment(run_id) or not run_id.isascii():
        raise ConfigError(f"{run_id[:60]!r} is not the id of a run.")
    return f"runs/{run_id}/{name}"
