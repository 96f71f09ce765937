"""The blueprints pane: details of the one under the cursor, and the way to its launch."""

from __future__ import annotations

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from tests.support.builders import console_services
from tests.support.waiting import settle, wait_for
from tests.unit.panes.alone import WIDE, PaneApp
from tui.panes.blueprints import BlueprintsPane
from tui.present.subject import Subject
from tui.textual_private import screen_text


async def test_going_into_a_blueprint_opens_its_launch() -> None:
    services = console_services()
    services.blueprints.found = (load_blueprint(shipped_blueprints() / "efa-nccl-tests"),)
    app = PaneApp(BlueprintsPane(services))

    async with app.run_test(size=WIDE) as pilot:
        app.pane.refresh_data()
        app.pane.focus_content()
        await settle(pilot)
        assert services.blueprints.found[0].title in screen_text(app)
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.entered, "the blueprint was entered")

    assert app.entered == ["launch efa-nccl-tests"]
    assert app.pane.subject() == Subject("Blueprint", "efa-nccl-tests")
