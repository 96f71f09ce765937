"""A package is built of the same bytes every time; installed elsewhere it is complete, and keeps to itself."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("actions", "assets", "blueprints", "tui")
ADDRESS = re.compile(r"\]\((https://github\.com/[\w-]+/eksml-tui)/(blob|raw)/v([\d.]+)/([^)#]+)(?:#[^)]*)?\)")

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


def test_two_builds_in_two_folders_are_equal(tmp_path: Path) -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    for file in tracked.splitlines():
        if not file.startswith("tests/"):
            (tmp_path / "one" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / "one" / file)
    shutil.copytree(tmp_path / "one", tmp_path / "other", copy_function=shutil.copy)  # with other times
    digests = []
    for name in ("one", "other"):
        build = [sys.executable, "-m", "build", "--no-isolation", str(tmp_path / name)]
        subprocess.run(build, check=True, capture_output=True, env={"PATH": "", "SOURCE_DATE_EPOCH": "1790000000"})
        built = sorted((tmp_path / name / "dist").iterdir())
        digests.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in built})
    assert len(digests[0]) == 2
    assert digests[0] == digests[1]


def test_links_and_pictures_lead_from_an_index_to_files_of_the_repository(installed: Path) -> None:
    (info,) = installed.parent.glob("lib/python*/site-packages/eksml_tui-*.dist-info")
    package = PathDistribution(info)
    page = str(package.read_text("METADATA"))
    found = ADDRESS.findall(page)
    repository = next(text for text in package.metadata.get_all("Project-URL", []) if text.startswith("Repository, "))
    assert {address for address, *_ in found} == {repository.partition(", ")[2]}
    assert {version for _, _, version, _ in found} == {package.version}
    assert [place for *_, place in found if not (ROOT / place).exists()] == []
    pictures = set(re.findall(r"!\[[^\]]*\]\(([^)]*)\)", page))
    assert len(pictures) > 3
    assert {picture for picture in pictures if "/raw/" not in picture} == set()
    assert re.findall(r"\]\((?!https:|#)[^)]*\)", page) == []
