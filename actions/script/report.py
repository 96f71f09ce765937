"""The reports of a played script, as JSON, as JUnit XML and as Markdown."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import msgspec
from msgspec.structs import replace

from actions.base.clock import format_rfc3339, parse_rfc3339
from actions.base.errors import ConfigError
from actions.base.untrusted import one_line, plain_text, redact
from actions.run.spending import last_moment, spending_fields, spending_of
from actions.run.state.view import RunView, StageState, StageView

SCHEMA = "eksml-report/1"

PASSED, FAILED, LEFT_SOMETHING, INTERRUPTED = 0, 1, 3, 130

Result = Literal["passed", "failed", "left something", "interrupted"]
_RESULTS: dict[int, Result] = {
    PASSED: "passed",
    FAILED: "failed",
    LEFT_SOMETHING: "left something",
    INTERRUPTED: "interrupted",
}


class StepResult(StrEnum):
    """The result of a step."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class StepReport(msgspec.Struct, frozen=True):
    """One played step."""

    section: Literal["steps", "always"]
    verb: str
    text: str
    line: int
    result: StepResult
    seconds: float
    seen: str
    """The state that was found in the end, or the reason of the failure."""


class StageReport(msgspec.Struct, frozen=True):
    """One stage of the run, or step of its teardown."""

    id: str
    kind: str
    state: str
    """Its last state; of a stage that a teardown has undone, the last state before that."""
    is_undone: bool
    attempt: int
    seconds: float | None
    message: str


class RunReport(msgspec.Struct, frozen=True):
    """The run that the script launched."""

    id: str
    blueprint: str
    state: str
    stages: tuple[StageReport, ...]
    teardown: tuple[StageReport, ...]
    leftovers: tuple[str, ...] | None
    """Objects that the audit found; `null` without an audit."""
    retained: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Checks that the audit could not make."""
    spent: dict[str, object] | None = None
    """The cost of the run and of each stage, as `runs show` has it; `null` for a run without prices."""


class Report(msgspec.Struct, frozen=True):
    """The report of a played script; its fields are the keys of the JSON."""

    schema: str
    script: str
    result: Result
    exit_code: int
    started_at: str
    seconds: float
    steps: tuple[StepReport, ...]
    run: RunReport | None
    artifacts: tuple[str, ...]


def exit_code_of(steps: tuple[StepReport, ...], run: RunReport | None, *, is_interrupted: bool = False) -> int:
    """Return 0 for passed, 3 if something is or may be left behind, 130 for interrupted, else 1."""
    if run is not None and (run.leftovers or run.unknown):
        return LEFT_SOMETHING
    failed = [step for step in steps if step.result is StepResult.FAILED]
    if any(step.section == "always" and step.verb == "teardown" for step in failed):
        return LEFT_SOMETHING
    if is_interrupted:
        return INTERRUPTED
    return FAILED if failed else PASSED


def result_of(exit_code: int) -> Result:
    """Return the word for an exit code of `exit_code_of`."""
    return _RESULTS[exit_code]


def run_report(view: RunView) -> RunReport:
    """Return a run's part of the report."""
    return RunReport(
        id=view.id,
        blueprint=view.blueprint_id,
        state=view.state.value,
        stages=tuple(_stage(stage) for stage in view.stages),
        teardown=tuple(_stage(stage) for stage in view.teardown),
        leftovers=view.audit.leftovers if view.audit else None,
        retained=view.audit.retained if view.audit else (),
        unknown=view.audit.unknown if view.audit else (),
        spent=spending_fields(spending_of(view, last_moment(view))),
    )


def without_secrets(report: Report) -> Report:
    """Return the report with secrets hidden in its texts; names, states and times are unchanged."""
    run = report.run
    return replace(
        report,
        script=redact(report.script),
        steps=tuple(replace(step, text=redact(step.text), seen=redact(step.seen)) for step in report.steps),
        run=None
        if run is None
        else replace(
            run,
            stages=_redacted_stages(run.stages),
            teardown=_redacted_stages(run.teardown),
            leftovers=None if run.leftovers is None else tuple(map(redact, run.leftovers)),
            retained=tuple(map(redact, run.retained)),
            unknown=tuple(map(redact, run.unknown)),
        ),
        artifacts=tuple(map(redact, report.artifacts)),
    )


def _redacted_stages(stages: tuple[StageReport, ...]) -> tuple[StageReport, ...]:
    return tuple(replace(stage, message=redact(stage.message)) for stage in stages)


def report_json(report: Report) -> bytes:
    """Return the report as indented JSON, ended by a newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def write_report(report: Report, file: Path) -> None:
    """Write the report as JSON.

    Raises:
        ConfigError: The file cannot be written.
    """
    _write(file, report_json(report))


def write_junit(report: Report, file: Path) -> None:
    """Write the report as JUnit XML, with one test case a step.

    Raises:
        ConfigError: The file cannot be written.
    """
    failures = sum(step.result is StepResult.FAILED for step in report.steps)
    skipped = sum(step.result is StepResult.SKIPPED for step in report.steps)
    suite = ElementTree.Element(
        "testsuite",
        name=report.script,
        tests=str(len(report.steps)),
        failures=str(failures),
        skipped=str(skipped),
        time=f"{report.seconds:.3f}",
        timestamp=format_rfc3339(parse_rfc3339(report.started_at)).rstrip("Z"),
    )
    for step in report.steps:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"{report.script}.{step.section}",
            name=f"line {step.line}: {_xml(step.text)}",
            time=f"{step.seconds:.3f}",
        )
        if step.result is StepResult.FAILED:
            ElementTree.SubElement(case, "failure", message=_xml(step.seen))
        elif step.result is StepResult.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=_xml(step.seen))
    _write(file, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n")


def write_summary(report: Report, file: Path) -> None:
    """Write the report as a page of Markdown, such as GitHub's summary of a job.

    Raises:
        ConfigError: The file cannot be written.
    """
    lines = [f"### {_markdown(report.script)}: {report.result} after {report.seconds:.0f} s", ""]
    if report.run is not None:
        lines += [f"Run {_markdown(report.run.id)} of {_markdown(report.run.blueprint)}: {report.run.state}.", ""]
        left = (*(report.run.leftovers or ()), *report.run.unknown)
        lines += [*(f"- left, or not known: {_markdown(what)}" for what in left), ""]
    lines += ["| line | step | result | seconds | seen |", "| ---: | --- | --- | ---: | --- |"]
    lines += [
        f"| {step.line} | {_markdown(step.text)} | {step.result} | {step.seconds:.1f} | {_markdown(step.seen)} |"
        for step in report.steps
    ]
    _write(file, ("\n".join(lines) + "\n").encode())


def _markdown(text: str) -> str:
    """A text on one line without a meaning in Markdown: what was seen may come from a pod."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", one_line(text))


def _stage(stage: StageView) -> StageReport:
    seconds = None
    if stage.started_at is not None and stage.ended_at is not None:
        seconds = round(stage.ended_at - stage.started_at, 3)
    is_undone = stage.state is StageState.UNDONE
    state = stage.reached if is_undone else stage.state
    return StageReport(stage.id, stage.kind, state.value, is_undone, stage.attempt, seconds, stage.message)


def _xml(text: str) -> str:
    return plain_text(text)


def _write(file: Path, data: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.", hint="Choose another path.") from error
