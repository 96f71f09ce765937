"""TensorBoard: says where it listens, and stays.

Source: TensorBoard 2.11.
"""

from __future__ import annotations

import re

from actions.sandbox.workloads.program import Container, Program, Step

_WHOLE_DAY = 86_400.0


def is_wanted_by(container: Container) -> bool:
    """Whether a container's command is TensorBoard."""
    return "tensorboard" in container.command_line and "--logdir" in container.command_line


def serve(container: Container) -> Program:
    """Run until somebody ends it."""
    port = re.search(r"--port[= ](\d+)", container.command_line)
    yield Step(2.0, f"TensorBoard 2.11.2 at http://0.0.0.0:{port[1] if port else 6006}/ (Press CTRL+C to quit)\n", True)
    while True:
        yield Step(_WHOLE_DAY)
