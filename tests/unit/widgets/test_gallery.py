"""All widgets together, at the sizes that people have."""

from __future__ import annotations

import pytest

from tests.support.gallery import SIZES, Gallery
from tests.support.waiting import wait_for
from tui.textual_private import screen_text

SIGNS = {
    "nodes": "60 nodes",
    "stages": "▶ Prepare UniRef50",
    "logs": "● following",
    "loss": "train_loss",
    "form": "Learning rate",
    "shell": "NVIDIA A10G",
}


@pytest.mark.parametrize("size", [*SIZES, (46, 18)])
async def test_every_widget_shows_itself_at_every_size(size: tuple[int, int]) -> None:
    app = Gallery()
    async with app.run_test(size=size) as pilot:
        for key, sign in SIGNS.items():
            app.split.reveal(key)
            await wait_for(pilot, lambda sign=sign: sign in screen_text(app), f"{key} with {sign!r}")  # type: ignore[misc]  # a lambda with a default
        lines = screen_text(app).splitlines()
        assert len(lines) == size[1]
