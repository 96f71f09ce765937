"""D9: a script ends the run that it has launched or that was named, never one that happens to be on the machine."""

from __future__ import annotations

import json

from actions.run.journal.reader import load_run
from actions.run.state.view import Goal
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import a_run
from tests.support.program import Program

SANDBOX_SPEED = 100.0
END = "  - teardown: {confirm: bionemo-on-eks, delete_data: true}\n"
FAILING = f"""\
eksml-script: 1
steps:
  - open: nodes
  - wait: {{nodes: {{count: ">= 1"}}, within: 60s}}
  - launch: {{blueprint: bionemo-esm1nv, until: "2020-01-01T00:00Z"}}
always:
{END}"""
NAMELESS = f"eksml-script: 1\nsteps:\n{END}"


def played(program: Program, sandbox: RunningSandbox, text: str, *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    script, report = program.home / "script.yaml", program.home / "report.json"
    script.write_text(text)
    done = program.command(
        "--kubeconfig", str(sandbox.kubeconfig), "--script", str(script), "--report", str(report), *arguments
    )
    steps = json.loads(report.read_text())["steps"]
    return done.returncode, [(step["verb"], step["result"]) for step in steps]


def test_a_launch_that_fails_costs_no_other_run(program: Program, sandbox: RunningSandbox) -> None:
    folder = a_run(program.home, sandbox, home=program.state / "runs")
    code, steps = played(program, sandbox, FAILING)
    assert (code, steps[-2:]) == (1, [("launch", "failed"), ("teardown", "passed")])
    assert load_run(folder).goal is Goal.FORWARD


def test_a_teardown_of_no_run_in_particular_fails(program: Program, sandbox: RunningSandbox) -> None:
    folder = a_run(program.home, sandbox, home=program.state / "runs")
    assert played(program, sandbox, NAMELESS) == (1, [("teardown", "failed")])
    assert load_run(folder).goal is Goal.FORWARD


def test_a_teardown_of_the_run_that_is_named_is_carried_out(program: Program, sandbox: RunningSandbox) -> None:
    folder = a_run(program.home, sandbox, home=program.state / "runs")
    assert played(program, sandbox, NAMELESS, "--run", folder.name) == (0, [("teardown", "passed")])
    assert load_run(folder).goal is Goal.TEARDOWN
