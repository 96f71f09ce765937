"""Blueprints: rows of the catalogue, the fields of a launch form, and the plan with its cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.wording import duration_range, folded
from actions.blueprint.launch_plan import OF_THE_CLUSTER, LaunchPlan, StagePlan
from actions.blueprint.mirror import CopyState
from actions.blueprint.model import Blueprint, Parameter, ParameterType
from actions.blueprint.parameters import makes_cluster
from actions.blueprint.parts import Scalar
from actions.cluster.auth.kubeconfig import ContextParts
from tui.present.cells import Cells, Span, Tone, fit, width_of
from tui.present.limits import BUDGET

if TYPE_CHECKING:
    from actions.blueprint.catalogue import BrokenBlueprint
    from actions.blueprint.model import Blueprint
    from actions.blueprint.parameters import Binding
    from actions.run.doctor.report import DoctorLine


def search_text(blueprint: Blueprint) -> str:
    """Return the text that a filter on blueprints matches."""
    return f"{blueprint.id} {blueprint.title} {blueprint.summary}"


def detail(blueprint: Blueprint | None, broken: Sequence[BrokenBlueprint], *, width: int) -> list[Cells]:
    """Return the summary and stages of a blueprint, then the folders that could not be read.

    Args:
        blueprint: The one under the cursor, if any.
        broken: Blueprints that could not be loaded.
        width: Terminal columns to wrap at.
    """
    lines: list[Cells] = []
    if blueprint is not None:
        lines += [(Span(line),) for line in folded(blueprint.summary, width)]
        stages = " → ".join(stage.id for stage in blueprint.stages)
        lines += [(Span(line, Tone.MUTED),) for line in folded(stages, width)]
        if blueprint.presets:
            lines.append((Span("presets ", Tone.MUTED), Span(", ".join(blueprint.presets))))
    for item in broken:
        lines += [(Span(line, Tone.BAD),) for line in folded(f"✗ {item.error.sentence()}", width)]
    return lines


PRESET = "@preset"
EXISTING = "@existing"
APPROVAL = "@approve"
STORE, NO_STORE = "@store", "none"
"""The key of the field for the run's store, and the word for a launch without one."""
NO_PRESET = "none"
_OF_THE_RUN = "Run"
_HEADINGS = ("STAGE", "EXPECTED", "$/H", "COST", "NODES")
_NUMBERS_AT = (2, 3)
_NODES_AT = 4
_GAP = 2
_LEAST_TITLE = 14


def fields_of(
    blueprint: Blueprint, *, preset: str, usual_preset: str = "", store: str = "", there: str = ""
) -> dict[str, Parameter]:
    """Return the form's fields: preset and cluster, the parameters with the preset's values as defaults, and the run's.

    Args:
        blueprint: The blueprint.
        preset: The chosen preset; empty for none.
        usual_preset: The preset that a form begins with, to which its field is reset.
        store: The store of the settings; empty for none.
        there: The cluster on screen and its region; empty for none.
    """
    presets = Parameter(
        type=ParameterType.TEXT,
        title="Preset",
        default=usual_preset or NO_PRESET,
        choices=(NO_PRESET, *blueprint.presets),
    )
    return {
        **({PRESET: presets} if blueprint.presets else {}),
        EXISTING: _switch("Use this cluster", f"{f'{there}; ' if there else ''}yes: provision nothing."),
        **{
            name: replace(parameter, default=default_of(blueprint, preset, name))
            for name, parameter in blueprint.parameters.items()
        },
        STORE: Parameter(
            type=ParameterType.TEXT,
            title="Store",
            default=store,
            help="s3://BUCKET/PREFIX. Empty: its cluster, once it is there.",
            group=_OF_THE_RUN,
        ),
        APPROVAL: _switch("Approve all plans", "yes: Terraform's plans wait for no approval.", group=_OF_THE_RUN),
    }


def shown_fields(blueprint: Blueprint) -> tuple[str, ...]:
    """Return the fields that a form does not fold: preset, cluster, what a person decides, and the budget."""
    return (*((PRESET,) if blueprint.presets else ()), EXISTING, *blueprint.form, BUDGET)


def known_parameters(place: ContextParts) -> tuple[str, ...]:
    """Return the parameters that a launch into a cluster takes from that: they are not asked for."""
    return ("cluster_name",) * bool(place.cluster) + ("region",) * bool(place.region)


def _switch(title: str, explanation: str, group: str = "") -> Parameter:
    return Parameter(type=ParameterType.BOOLEAN, title=title, default=False, help=explanation, group=group)


def named_parameters(blueprint: Blueprint, sentences: Iterable[str]) -> list[str]:
    """Return the parameters that sentences name, in their order."""
    words = dict.fromkeys(word for sentence in sentences for word in re.findall(r"\w+", sentence))
    return [word for word in words if word in blueprint.parameters]


def store_of_command(store: str, usual: str) -> str:
    """Return the store that a launch states: empty for none.

    Args:
        store: As typed: an address, `none`, or empty for that of the settings.
        usual: The store of the settings.
    """
    return "" if store == NO_STORE else store or usual


def command_of_store(store: str, usual: str) -> str:
    """Return the word by which a launch states a store; see `store_of_command`."""
    return "" if store == usual else store or NO_STORE


def default_of(blueprint: Blueprint, preset: str, name: str) -> Scalar:
    """Return the value of a parameter that is not set."""
    chosen = blueprint.presets.get(preset)
    return chosen.set.get(name, blueprint.parameters[name].default) if chosen else blueprint.parameters[name].default


def chosen_values(blueprint: Blueprint, preset: str, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the parameters whose values differ from the preset's."""
    return {
        name: values[name]
        for name in blueprint.parameters
        if name in values and values[name] != default_of(blueprint, preset, name)
    }


def launch_title(blueprint: Blueprint, plan: LaunchPlan | None, *, is_simulated: bool, is_refused: bool = False) -> str:
    """Return the question of a launch: `Launch bionemo-esm1nv for real: $4.81–9.83`; of one that costs nothing, short.

    Args:
        blueprint: The blueprint.
        plan: Its plan; `None` before there is one.
        is_simulated: No account is paid.
        is_refused: Checks have failed.
    """
    all_the_same = " all the same" if is_refused else ""
    if is_simulated or plan is None:
        return f"Launch {blueprint.id}{all_the_same}?"
    return f"Launch {blueprint.id} for real{all_the_same}: {plan.cost_text if plan.is_priced else 'no price is known'}"


def cost_lines(plan: LaunchPlan, width: int) -> list[Cells]:
    """Return the nodes and the price of a launch's dearest hour, and its time, in a line or two."""
    dearest = max(plan.stages, key=lambda stage: stage.usd_per_hour or 0, default=None)
    nodes = ", ".join(f"{count}\xa0×\xa0{instance}" for instance, count in dearest.nodes) if dearest is not None else ""
    is_known = plan.peak_usd_per_hour is not None
    rate = f"{plan.peak_text} at the peak" if is_known else "An hour at the peak has no known price"
    of_nodes = f", with {nodes}" if nodes else ""
    end = "; simulated" if plan.is_cost_simulated else ""
    time = duration_range(plan.low_seconds, plan.high_seconds)
    return _wrapped(f"{rate}{of_nodes}; {time} in all{end}.", Tone.STRONG, width)


def chosen_lines(
    blueprint: Blueprint, values: Mapping[str, Scalar], *, preset: str, is_existing: bool, width: int
) -> list[Cells]:
    """Return preset and parameters of a launch in two lines: those that differ from the preset's or the default.

    Args:
        blueprint: The blueprint.
        values: By parameter; secrets among them are not shown.
        preset: Empty for none.
        is_existing: It uses the cluster on screen, and makes none.
        width: Terminal columns.
    """
    changed = [
        f"{name}={'(hidden)' if blueprint.parameters[name].type is ParameterType.SECRET else _said(value)}"
        for name, value in chosen_values(blueprint, preset, values).items()
    ]
    parts = [f"preset {preset}"] * bool(preset) + ["the cluster on screen"] * is_existing + changed
    text = f"With {', '.join(parts)}." if parts else "All parameters have their defaults."
    lines = folded(text, width, further="  ", most=2)
    return [(Span(line, Tone.ACCENT if parts else Tone.MUTED),) for line in lines]


def place_lines(
    blueprint: Blueprint, bound: Binding, *, account: str, context: str, region: str, auto_approve: bool, width: int
) -> list[Cells]:
    """Return where a launch works, and that it asks nothing more, in a few lines.

    Args:
        blueprint: The blueprint.
        bound: Its values.
        account: The AWS account of the credentials; empty if it is not known yet.
        context: That of the cluster on screen; empty without one.
        region: Its own, if it is the one that is used; empty for that of the values.
        auto_approve: Plans of Terraform are carried out as they come.
        width: Terminal columns.
    """
    stages = blueprint.under(bound.preset).stages
    makes = makes_cluster(blueprint, bound)
    name = bound.text("cluster_name", blueprint.cluster.name)
    known = {
        "Makes cluster" if makes else "In cluster": name if makes else context or name,
        "region": region or bound.text("region", blueprint.cluster.region),
        "account": account or "not known yet",
    }
    text = " · ".join(f"{key} {value}".replace(" ", "\xa0") for key, value in known.items() if value)
    lines: list[Cells] = [
        (Span(line.replace("\xa0", " ").removesuffix(" ·"), Tone.STRONG),) for line in folded(text, width)
    ]
    if auto_approve and any(stage.kind == "terraform" for stage in stages):
        lines += _wrapped("All plans of Terraform are carried out without asking.", Tone.WARN, width)
    return lines


def _said(value: Scalar) -> str:
    """Return a value as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def plan_lines(plan: LaunchPlan, width: int, in_cluster: str = "") -> list[Cells]:
    """Return the sums and one line for each stage; in few columns titles are cut, then the nodes are left out.

    Args:
        plan: The plan.
        width: Terminal columns.
        in_cluster: What it uses of a cluster that is there, and adds, in a sentence; empty if that is not known.
    """
    peak = "" if plan.peak_usd_per_hour is None else f", peak {plan.peak_text}"
    sums = f"{duration_range(plan.low_seconds, plan.high_seconds)}, {plan.cost_text}{peak}"
    lines: list[Cells] = [(Span("Total: ", Tone.MUTED), Span(sums, Tone.STRONG))]
    lines += _sums_lines(plan, width, in_cluster)
    for stage in plan.stages:
        if stage.basis:
            lines += _wrapped(f"{stage.id}: {stage.basis}", Tone.MUTED, width)
    if plan.is_cost_simulated:
        lines += _wrapped("This preset runs on the embedded cluster: the cost is simulated.", Tone.ACCENT, width)
    for copy in plan.operators:
        if copy.state in _COPY_MARKS:
            mark, tone = _COPY_MARKS[copy.state]
            lines += _wrapped(f"{mark} {copy.name} {copy.version} {copy.state.value}: {copy.note}", tone, width)
    lines += _stage_lines(plan.stages, width)
    beside = [rate.name for rate in plan.rates if not _NODES.match(rate.name)]
    if beside:
        text = f"$/h is of nodes and of {'; '.join(beside)}."
        lines += _wrapped(text, Tone.MUTED, width)
    for state, words in _GOOD_COPIES.items():
        names = ", ".join(f"{copy.name} {copy.version}" for copy in plan.operators if copy.state is state)
        lines += _wrapped(f"{words} {names}", Tone.MUTED, width) if names else []
    return lines


def _sums_lines(plan: LaunchPlan, width: int, in_cluster: str) -> list[Cells]:
    """Return the meaning of the sums, and what they leave out."""
    lines: list[Cells] = []
    if plan.is_into_cluster:
        lines += _wrapped(in_cluster or f"$/h is{OF_THE_CLUSTER}.", Tone.STRONG if in_cluster else Tone.MUTED, width)
    if plan.unpriced:
        lines += _wrapped(f"▲ No price is known for {'; '.join(plan.unpriced)}", Tone.WARN, width)
    if plan.usage:
        used = "; ".join(item.text for item in plan.usage)
        lines += _wrapped(f"Paid by use, and not in it: {used}", Tone.MUTED, width)
    return lines


_NODES = re.compile(r"\d+ × ")
"""The name of a rate of nodes begins so."""
_COPY_MARKS = {CopyState.UNVERIFIED: ("▲", Tone.WARN), CopyState.MISSING: ("✘", Tone.BAD)}
"""Of operators that need a look."""
_GOOD_COPIES = {
    CopyState.VERIFIED: "✔ Here and verified:",
    CopyState.FETCHED: "Fetched and verified at launch, before the run starts:",
}


def problem_lines(sentence: str, width: int) -> list[Cells]:
    """Return the lines shown instead of a plan that cannot be computed."""
    return _wrapped(f"✘ {sentence}", Tone.BAD, width)


def note_lines(sentences: Sequence[str], width: int) -> list[Cells]:
    """Return the lines below a plan: what is known of zone, reservation and support."""
    return [line for sentence in sentences for line in _wrapped(sentence, Tone.ACCENT, width)]


def check_lines(
    lines: Sequence[DoctorLine], waiting: int, width: int, *, worded: Callable[[str], str] = str
) -> list[Cells]:
    """Return what the doctor's checks have found, above a plan: their counts, then each that has failed.

    Args:
        lines: The checks with an answer; those that refuse the launch come first.
        waiting: The number of those without one.
        width: Terminal columns.
        worded: Gives remedies the words of the console.
    """
    if not (lines or waiting):
        return []
    from actions.run.doctor.report import summary
    from actions.run.state.records import CheckResult

    failed = sorted((line for line in lines if line.result is CheckResult.FAILED), key=lambda line: not line.blocks)
    asked = ", ".join(
        part for part in (summary(lines) if lines else "", f"asking {waiting}" if waiting else "") if part
    )
    shown: list[Cells] = [(Span("Checks: ", Tone.MUTED), Span(asked, Tone.BAD if failed else Tone.STRONG))]
    for line in failed:
        mark, tone = ("✘", Tone.BAD) if line.blocks else ("▲", Tone.WARN)  # a cross refuses
        shown += _wrapped(f"{mark} {line.check}: {line.detail}", tone, width)
        shown += _wrapped(f"  → {worded(line.remedy)}", Tone.PLAIN, width)
    return shown


def warning_lines(lines: Sequence[DoctorLine], width: int) -> list[Cells]:
    """Return the checks that have failed, or have no answer, and refuse nothing: by name, as the form has the rest."""
    if not lines:
        return []
    from actions.run.state.records import CheckResult

    shown: list[Cells] = []
    for result, words, tone in (
        (CheckResult.FAILED, "▲ Failed", Tone.WARN),
        (CheckResult.UNKNOWN, "? Unknown", Tone.MUTED),
    ):
        names = ", ".join(line.check for line in lines if line.result is result)
        shown += _wrapped(f"{words}: {names}", tone, width) if names else []
    return shown


def unknown_lines(lines: Sequence[DoctorLine], width: int) -> list[Cells]:
    """Return the checks that could not be made, with the way to an answer: they refuse nothing."""
    if not lines:
        return []
    from actions.run.checks.observation import said_once
    from actions.run.state.records import CheckResult

    return [
        part
        for line in said_once(lines, lambda line: line.check)
        if line.result is CheckResult.UNKNOWN
        for part in _wrapped(f"? {line.check}: {line.detail} → {line.remedy}", Tone.MUTED, width)
    ]


def refusal_lines(lines: Sequence[DoctorLine], width: int, *, worded: Callable[[str], str] = str) -> list[Cells]:
    """Return why a launch is refused; it is launched all the same by the names of the checks."""
    sentence = "This launch would fail: fix the cause, or type what failed."
    refusing = [line for line in lines if line.blocks]
    return [*_wrapped(sentence, Tone.STRONG, width), *check_lines(refusing, 0, width, worded=worded)[1:]]


def _wrapped(text: str, tone: Tone, width: int) -> list[Cells]:
    return [(Span(line.replace("\xa0", " "), tone),) for line in folded(text, max(1, width), further="  ")]


def _stage_lines(stages: Sequence[StagePlan], width: int) -> list[Cells]:
    rows = [_stage_row(stage) for stage in stages]
    widths = [max(map(width_of, column)) for column in zip(_HEADINGS, *(row for row in rows if row[1]), strict=True)]
    titles = max([width_of(_HEADINGS[0]), *(len(stage.title) for stage in stages)])
    over = titles + sum(widths[1:]) + _GAP * (len(widths) - 1) - width
    if titles - over < _LEAST_TITLE:
        over -= widths.pop() + _GAP
    widths[0] = titles - max(0, over)
    heading = _laid(_HEADINGS, widths, Tone.STRONG)
    return [
        heading,
        *(
            _laid(row, widths, Tone.PLAIN) if row[1] else _skipped(stage, widths[0], width)
            for stage, row in zip(stages, rows, strict=True)
        ),
    ]


def _stage_row(stage: StagePlan) -> tuple[str, ...]:
    """Return title, time, hourly cost, total cost and nodes; all but the title are empty for a skipped stage."""
    if stage.is_skipped:
        return (stage.title, "", "", "", "")
    nodes = ", ".join(f"{count} × {instance}" for instance, count in stage.nodes)
    if stage.is_free:
        return (stage.title, duration_range(stage.low_seconds, stage.high_seconds), "–", "–", nodes)
    return (
        stage.title,
        duration_range(stage.low_seconds, stage.high_seconds),
        stage.hourly_text,
        stage.cost_text,
        nodes,
    )


def _laid(row: Sequence[str], widths: Sequence[int], tone: Tone) -> Cells:
    spans: list[Span] = []
    for at, column_width in enumerate(widths):
        shown = tone if at < _NODES_AT or tone is Tone.STRONG else Tone.MUTED
        spans += [*fit(Span(row[at], shown), column_width, align_right=at in _NUMBERS_AT), Span(" " * _GAP)]
    return tuple(spans[:-1])


def _skipped(stage: StagePlan, title_width: int, width: int) -> Cells:
    room = max(1, width - title_width - _GAP)
    why = fit(Span(f"skipped: {stage.skip_reason}", Tone.MUTED), room)
    return (*fit(Span(stage.title), title_width), Span(" " * _GAP), *why)
