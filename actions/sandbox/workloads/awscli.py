"""`aws s3 sync` in a container: a line for each file, as fast as a network of 1 GB/s; refused for buckets `denied-…`.

Source: AWS CLI 2.22, `aws s3 sync help`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from actions.sandbox.workloads.program import Program, Step
from actions.sandbox.workloads.terminal import Inside

_BYTES_PER_SECOND = 1e9
_LEAST_SECONDS = 0.02
_USAGE = 252


def aws(inside: Inside, arguments: Sequence[str], _given: str) -> Program:
    """`aws s3 sync FOLDER s3://BUCKET/PREFIX`; anything else is refused."""
    words = [word for word in arguments if not word.startswith("-")]
    if list(arguments[:2]) != ["s3", "sync"] or len(words) < 4:
        yield Step(text="aws: the sandbox knows `aws s3 sync FOLDER s3://BUCKET/PREFIX` only\n", is_error=True)
        return _USAGE
    source, target = words[2], words[3].rstrip("/")
    files, is_denied = inside.container.files, target.startswith("s3://denied")
    root = posixpath.normpath(posixpath.join(inside.folder, source))
    if not files.is_folder(root):
        yield Step(text=f"The user-provided path {source} does not exist.\n", is_error=True)
        return 255
    for path in files.walk(root):
        found, name = files.file(path), posixpath.relpath(path, root)
        if is_denied:
            words_of_s3 = "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied"
            yield Step(0.1, f"upload failed: {path} to {target}/{name} {words_of_s3}\n", is_error=True)
            continue
        seconds = max(_LEAST_SECONDS, (found.size_bytes if found else 0) / _BYTES_PER_SECOND)
        yield Step(min(seconds, 1.0), f"upload: {path} to {target}/{name}\n")
    return 1 if is_denied else 0
