"""A package installed elsewhere is complete, and keeps to itself whatever the working folder holds."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("actions", "assets", "blueprints", "tui")

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel, with our dependencies borrowed by path."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "env"
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]  # an environment with a pip of its own takes 3 s
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    own = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True
    )
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    # a .pth file adds the libraries, and not this checkout: editable installs are found by finders, not by this path
    Path(own.stdout.strip(), "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    decoy = folder / "work" / "actions"
    decoy.mkdir(parents=True)
    (decoy / "__init__.py").write_text("raise SystemExit('the decoy was imported')\n")
    return environment / "bin"


def run(installed: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, cwd=installed.parents[1] / "work", check=False)


def test_the_program_runs_beside_a_decoy(installed: Path) -> None:
    done = run(installed, str(installed / "eksml-tui"), "blueprints")
    assert (done.returncode, done.stderr) == (0, "")
    assert "bionemo-esm1nv" in done.stdout


def test_children_are_started_from_the_package(installed: Path) -> None:
    done = run(installed, str(installed / "python"), "-P", "-m", "actions.sandbox", "--help")
    assert done.returncode == 0, done.stderr


def test_all_data_is_in_the_wheel(installed: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout.split()
    where = run(
        installed, str(installed / "python"), "-P", "-c", "import assets; print(assets.__path__[0])"
    ).stdout.strip()
    missing = [name for name in tracked if not (Path(where).parent / name).exists()]
    assert missing == []
