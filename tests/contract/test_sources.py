"""The product's modules as the rules about the code read them."""

from __future__ import annotations

import ast
import gc

from tests.support.sources import PRODUCT, ROOT, SourceModule, modules, modules_of


def test_a_module_has_its_nodes_by_class_outer_ones_first() -> None:
    module = SourceModule.parse(ROOT / "actions" / "base" / "clock.py")
    classes = [node.name for node in module.nodes(ast.ClassDef)]
    assert classes == [node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    assert (module.package, module.dotted) == ("actions", "actions.base.clock")
    assert list(module.nodes(ast.MatchStar)) == []


def test_a_package_has_the_name_by_which_it_is_imported() -> None:
    assert SourceModule.parse(ROOT / "actions" / "base" / "__init__.py").dotted == "actions.base"


def test_all_modules_are_read_once_and_the_collector_works_on() -> None:
    assert modules() is modules()
    assert gc.isenabled()
    paths = [module.path for module in modules()]
    assert len(paths) == len(set(paths))
    assert {path.parts[0] for path in paths} == set(PRODUCT)
    assert {module.package for module in modules_of("tui", "assets")} == {"tui", "assets"}
