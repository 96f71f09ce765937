"""`python -m actions.run FOLDER [--environment FILE]`: the runner of one run.

With a file, its variables replace the environment of this process; the file is removed when the runner has ended.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from actions.run.engine.live_backend import LiveBackend
from actions.run.engine.runner_process import main
from actions.run.engine.systemd import ENVIRONMENT_OPTION, read_environment


def run(arguments: list[str]) -> int:
    """Carry out the run. Returns the exit code."""
    folder, *rest = arguments
    if len(rest) != 2 or rest[0] != ENVIRONMENT_OPTION:
        return main(Path(folder), LiveBackend)
    file = Path(rest[1])
    variables = read_environment(file)
    os.environ.clear()
    os.environ.update(variables)
    code = main(Path(folder), LiveBackend)
    file.unlink(missing_ok=True)
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
