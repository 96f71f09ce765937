"""Programs started as another user of this machine, for what may not be read or reached by one."""

from __future__ import annotations

import shutil
import subprocess

from tests.support.missing import needs_root

NOBODY = 65534
CURL = shutil.which("curl")
needs_another_user = needs_root("curl")


def as_nobody(*argv: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program as `nobody`, who shares neither user nor group with this process."""
    return subprocess.run(
        argv,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": "/"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def status_for_nobody(url: str, *arguments: str) -> int:
    """The HTTP status that `nobody` gets; 0 where the connection ends without an answer."""
    done = as_nobody(str(CURL), "-k", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "30", *arguments, url)
    return int(done.stdout or 0)
