"""The documentation as a site, in a browser: its search finds words, its pictures load, and it asks no other host."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.support.browser import Page, browser
from tests.support.missing import needs
from tests.support.sources import ROOT

_RESULTS = "[...document.querySelectorAll('.md-search-result__item')].map(each => each.innerText).join('\\n')"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[str]:
    """Build the site, and serve it on 127.0.0.1; give its address."""
    argv = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    await asyncio.to_thread(
        subprocess.run, argv, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True, timeout=120
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


async def found(page: Page, address: str, word: str) -> str:
    """Search for a word as a reader does; return the texts of the results."""
    await page.call("Page.navigate", url=f"{address}index.html?{word}")
    await page.wait_true(f"document.readyState === 'complete' && location.search === '?{word}'")
    await page.call("Runtime.evaluate", expression="document.querySelector('.md-search__input').focus()")
    await page.call("Input.insertText", text=word)
    return str(await page.wait_true(_RESULTS))


@needs("chromium")
async def test_a_reader_finds_words_and_pictures_and_no_other_host_is_asked(tmp_path: Path) -> None:
    async with site(tmp_path / "site") as address, browser(tmp_path / "profile") as page:
        for word in ("teardown", "Kueue", "lease"):
            assert word.lower() in (await found(page, address, word)).lower()
        assert (
            await page.wait_true("[...document.images].filter(each => each.complete && each.naturalWidth).length") == 1
        )
        elsewhere = {url for url in page.requested if not url.startswith((address, "data:", "blob:"))}
        assert elsewhere == set()
        assert page.complaints == []
