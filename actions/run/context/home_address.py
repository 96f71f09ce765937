"""The address of a home, and the keys of a run in it.

`PREFIX/runs/RUN_ID/about.json`                          the run in a few words, written at its launch
`…/lease.json`                                           who carries it out, since when, and its newest state
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


class HomeAddress(msgspec.Struct, frozen=True):
    """The address of a home, `s3://BUCKET/PREFIX`."""

    bucket: str
    prefix: str
    """Without slashes at its ends; may be empty."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    def key(self, name: str) -> str:
        """Return the key of a name in the home, as S3 has it."""
        return f"{self.prefix}/{name}" if self.prefix else name


def parse_home(text: str) -> HomeAddress:
    """Read `s3://BUCKET/PREFIX`.

    Raises:
        UsageError: It is something else.
    """
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    is_good = text.startswith("s3://") and _BUCKET.fullmatch(bucket) and ".." not in bucket
    if not is_good or (prefix and not _PREFIX.fullmatch(prefix)) or len(prefix) > _MOST_PREFIX or "../" in f"{prefix}/":
        raise UsageError(f"{text[:80]!r} is not a home for runs.", hint="Write s3://BUCKET or s3://BUCKET/PREFIX.")
    return HomeAddress(bucket, prefix)


def run_key(run_id: str, name: str = "") -> str:
    """Return the name of a run's object in its home; with an empty `name` the prefix of all of them.

    Raises:
        ConfigError: The id cannot be part of a key.
    """
    if not is_segment(run_id) or not run_id.isascii():
        raise ConfigError(f"{run_id[:60]!r} is not the id of a run.")
    return f"runs/{run_id}/{name}"
