"""Stands in for `terraform` where a test needs an apply that it can hold: one resource, made when told so.

It behaves as Terraform 1.11.4 was recorded to: the first SIGINT has it finish what it is making and save its state, the
second makes it forget. In the folder in which it runs, `signals` counts what it was sent, and `finish` lets it end.
A file `mode` beside this program changes what it does: `torn` (a full disk has torn its last lines), `ui 2`, `deaf` (it
is not yet at work, and tells nothing of signals), `gone` (its refresh finds nothing that it could destroy).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

ADDRESS = "aws_eks_node_group.x"
STATE = Path("terraform.tfstate")
RESOURCE = {"addr": ADDRESS, "resource_type": "aws_eks_node_group"}
HEARD = (
    "\nInterrupt received.\nPlease wait for Terraform to exit or data loss may occur.\nGracefully shutting down...\n"
)
HEARD_TWICE = "\nTwo interrupts received. Exiting immediately. Note that data loss may have occurred.\n"


def mode() -> str:
    """Return the mode that the test wants."""
    path = Path(__file__).with_name("mode")
    return path.read_text().strip() if path.exists() else ""


def event(kind: str, message: str = "m", **fields: Any) -> str:
    """One line of the stream."""
    head = {"@level": "info", "@message": message, "@module": "terraform.ui", "@timestamp": "2026-11-22T11:23:00.3Z"}
    return json.dumps({**head, **fields, "type": kind})


def say(line: str) -> None:
    """Write it, whole."""
    os.write(1, f"{line}\n".encode())


def hook(kind: str, action: str) -> str:
    """An event of the resource."""
    return event(kind, hook={"resource": RESOURCE, "action": action, "id_key": "id", "id_value": "c:g"})


def save(names: list[str]) -> None:
    """Write the state."""
    old = json.loads(STATE.read_text()) if STATE.exists() else {"serial": 0}
    resources = [{"mode": "managed", "type": "aws_eks_node_group", "name": name, "instances": [{}]} for name in names]
    state = {"version": 4, "serial": old["serial"] + 1, "lineage": "stand-in", "resources": resources}
    STATE.write_text(json.dumps(state))


def names() -> list[str]:
    """Names in the state."""
    return [item["name"] for item in json.loads(STATE.read_text())["resources"]] if STATE.exists() else []


def version() -> None:
    """The first line."""
    say(event("version", terraform="1.11.4", ui="2.0" if mode() == "ui 2" else "1.2"))


def apply() -> int:
    """Make the resource when `finish` is there."""
    heard = 0

    def on_interrupt(_number: int, _frame: object) -> None:
        nonlocal heard
        heard += 1
        with Path("signals").open("a") as file:
            file.write(f"SIGINT {os.getpid()}\n")
        if mode() != "deaf":
            say(event("log", HEARD if heard == 1 else HEARD_TWICE))
        if heard > 1:
            os._exit(1)

    signal.signal(signal.SIGINT, on_interrupt)
    version()
    say(hook("apply_start", "create"))
    while not Path("finish").exists():
        time.sleep(0.01)
    save(["x"])
    if mode() == "torn":
        os.write(1, hook("apply_complete", "create")[:60].encode())
        os.write(1, (event("outputs", outputs={})[:40] + event("version", terraform="1.11.4", ui="1.2")).encode())
        return 0
    say(hook("apply_complete", "create"))
    if heard:
        say(event("diagnostic", diagnostic={"severity": "error", "summary": "execution halted", "detail": ""}))
        return 1
    say(event("change_summary", changes={"add": 1, "change": 0, "remove": 0, "operation": "apply"}))
    return 0


def plan(out: str) -> int:
    """One to add, unless it is there."""
    version()
    Path(out).write_text("plan")
    say(event("change_summary", changes={"add": 1 - len(names()), "change": 0, "remove": 0, "operation": "plan"}))
    return 0


def destroy() -> int:
    """Forget it. What a refresh does not find is dropped without a word, as Terraform 1.11.4 was recorded to."""
    version()
    Path("terraform.tfstate.backup").write_text(STATE.read_text())
    found = [] if mode() == "gone" else names()
    for _ in found:
        say(hook("apply_start", "delete"))
        say(hook("apply_complete", "delete"))
    save([])
    say(event("change_summary", changes={"add": 0, "change": 0, "remove": len(found), "operation": "destroy"}))
    return 0


def main(words: list[str]) -> int:
    """Carry one command out."""
    match words:
        case ["apply", *_]:
            return apply()
        case ["plan", *options]:
            return plan(next(word.partition("=")[2] for word in options if word.startswith("-out=")))
        case ["show", *_]:
            action = "no-op" if names() else "create"
            say(json.dumps({"resource_changes": [{"address": ADDRESS, "change": {"actions": [action]}}]}))
        case ["output", *_]:
            say("{}")
        case ["state", "pull"]:
            say(STATE.read_text() if STATE.exists() else "")
        case ["destroy", *_]:
            return destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
