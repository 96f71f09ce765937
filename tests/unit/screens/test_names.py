"""Names on the screen are accepted: the beginning of a run's id, a context's short name, a namespace."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import MissingError
from actions.cluster.auth.kubeconfig import whole_context
from tests.support import fixed_runs
from tests.support.fixed_cluster import picture
from tests.support.fixed_console import Scene, a_fixed_console
from tui.feeds.runs import whole_id
from tui.present.text import as_keys
from tui.settings.keymap import NO_CHANGES
from tui.textual_private import screen_text

ARN = "arn:aws:eks:us-west-2:111122223333:cluster/bionemo-on-eks"


async def test_the_name_of_a_run_that_the_screen_shows_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(picture(), summaries=fixed_runs.summaries(tmp_path))
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        await console.calm("Runs")
        runs = console.app.services.runs
        assert runs.summaries
        for run in runs.summaries:
            short = runs.names.get(run.id, run.id)
            assert runs.find(short).id == run.id
            assert whole_id(runs, short) == run.id
        with pytest.raises(MissingError, match="prefix of"):
            whole_id(runs, "llama2-trn1-")
        with pytest.raises(MissingError, match="There is no run 'nemo-nothing'"):
            runs.find("nemo-nothing")


async def test_the_pods_of_a_namespace_are_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_fixed_console(Scene(picture()), monkeypatch, size=(120, 36)) as console:
        await console.line("pods kube-system")
        await console.calm("kube-system")
        assert console.app.services.namespace == "kube-system"
        assert "esm1nv-pretraining" not in screen_text(console.app)
        await console.line("pods nowhere")
        await console.calm("Write a node, namespace")


def test_a_context_is_meant_by_the_name_of_its_cluster_if_only_one_has_it() -> None:
    twin = ARN.replace("us-west-2", "us-east-1")
    assert whole_context("bionemo-on-eks", [ARN, "other"]) == ARN
    assert whole_context("bionemo-on-eks", [ARN, twin]) == "bionemo-on-eks"  # it is refused with the names
    assert whole_context("other", [ARN, "other"]) == "other"


@pytest.mark.parametrize(
    ("shell", "keys"),
    [
        ("Resume it: eksml-tui runs resume abc-1", "Resume it: R"),
        ("Fix it, then: eksml-tui runs resume b-2.", "Fix it, then: :resume run=b."),
        ("eksml-tui runs resume abc-1 --takeover 33", ":resume takeover=33"),
        (
            "Tear it down: eksml-tui runs teardown b-2 --confirm bionemo-on-eks; or not",
            "Tear it down: :teardown run=b; or not",
        ),
        ("eksml-tui runs teardown abc-1 --confirm x --even-if-shared", ":teardown even_if_shared=true"),
        ("kubectl delete -n ml pytorchjob/esm1nv pod/w-0", ":delete pytorchjob/ml/esm1nv,pod/ml/w-0"),
        ("Look: eksml-tui runs results abc-1", "Look: eksml-tui runs results abc-1"),
    ],
)
def test_a_remedy_for_the_shell_is_a_key_or_a_line_in_the_console(shell: str, keys: str) -> None:
    assert as_keys(shell, NO_CHANGES, shown="abc-1", names={"b-2": "b"}) == keys
