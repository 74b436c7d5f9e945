"""The arrows between the packages, read from the import statements: who may know whom."""

import ast
from pathlib import Path

import pytest

from tests.conftest import PLUGIN, REPO

OURS = PLUGIN.name
# What each package may import of ours, besides itself. `architectures`, `configurations` and
# `defaults` are data, `checkpoint_sums` is of the standard library.
MAY_IMPORT = {
    "architectures": set(),
    "configurations": {"errors"},
    "errors": set(),
    "modules": set(),
    "metrics": {"configurations"},  # sizes: the widths of heads
    "models": {
        *("modules", "architectures", "configurations", "errors"),
        "defaults",  # recurrent ones train by other defaults
    },
    "criterions": {"modules", "defaults", "errors"},
    "optim": {"modules", "errors"},
    "search": {"modules", "errors"},
    "tasks": {"modules", "models", "search", "errors"},
    "interchange": {"modules", "models", "architectures", "configurations", "checkpoint_sums"},
    "checkpoint_sums": set(),
    "compat": set(),
    "fairseq_patches": {"checkpoint_sums", "errors"},
    "training": {
        *("fairseq_patches", "checkpoint_sums", "errors"),
        "defaults",  # the log names those of the paper that hold
        *("metrics", "modules"),  # metering
    },
    "defaults": set(),
    "cli": {
        *("architectures", "modules", "models", "criterions", "optim", "search", "tasks"),
        *("metrics", "interchange", "configurations", "defaults"),
    },
}
MAY_NOT_KNOW = {
    "modules": {"fairseq"},
    "metrics": {"fairseq", "torch"},
    "architectures": {"fairseq", "torch"},
    "configurations": {"torch"},
    "checkpoint_sums": {"fairseq", "torch"},
    "errors": {"fairseq", "torch"},
}
REGISTERING = {"register_model", "register_model_architecture", "register_task"}


def imported_names(path: Path) -> set[str]:
    """Dotted names of all modules that a file imports, wherever in it the statement stands."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def packages_of(names: set[str]) -> set[str]:
    """Our packages among dotted names: ``vaswani_plugin.search.penalty`` is of ``search``."""
    return {name.split(".")[1] for name in names if name.startswith(f"{OURS}.")}


def files() -> list[Path]:
    found = sorted(p for p in PLUGIN.rglob("*.py") if p != PLUGIN / "__init__.py")
    assert found, "the plugin has no files: this test would show nothing"
    return found


def package_of(path: Path) -> str:
    return path.relative_to(PLUGIN).with_suffix("").parts[0]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PLUGIN)))
def test_arrows_run_one_way(path):
    package = package_of(path)
    assert package in MAY_IMPORT, f"{package}: a new package needs its arrows here"
    names = imported_names(path)
    assert OURS not in names, "import the module that you mean, not the package"
    forbidden = packages_of(names) - MAY_IMPORT[package] - {package}
    assert not forbidden, f"{path}: {package} must not know {sorted(forbidden)}"
    foreign = {name.split(".")[0] for name in names} & MAY_NOT_KNOW.get(package, set())
    assert not foreign, f"{path}: {package} must not know {sorted(foreign)}"


def test_patches_come_first_and_only_training_knows_them():
    names = ast.parse((PLUGIN / "__init__.py").read_text(encoding="utf-8")).body
    imports = [node for node in names if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert "fairseq_patches" in {alias.name for alias in imports[0].names}
    users = [p for p in files() if "fairseq_patches" in packages_of(imported_names(p))]
    assert {package_of(path) for path in users} == {"fairseq_patches", "training"}


@pytest.mark.parametrize("package", ["models", "tasks"])
def test_fairseq_finds_only_registering_files(package):
    """fairseq imports every file there whose name does not start with an underscore or a dot."""
    for path in (PLUGIN / package).glob("*.py"):
        if path.name.startswith("_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert called & REGISTERING, f"{path} registers nothing: start its name with _"


def test_text_knows_neither_the_plugin_nor_its_libraries():
    """Scripts import it at every start, and fairseq and torch take seconds to load."""
    text = sorted((REPO / "data-prep").rglob("*.py"))
    assert text
    for path in text:
        known = {name.split(".")[0] for name in imported_names(path)}
        assert not known & {OURS, "fairseq", "torch"}, path


def test_references_import_nothing_of_ours():
    for path in (REPO / "tests" / "reference").rglob("*.py"):
        assert not packages_of(imported_names(path)) and OURS not in imported_names(path), path


def test_names_are_read_wherever_they_stand(tmp_path):
    source = "import a.b\ndef f():\n    from vaswani_plugin.search import beam\n"
    (tmp_path / "x.py").write_text(source, encoding="utf-8")
    assert imported_names(tmp_path / "x.py") == {"a.b", f"{OURS}.search.beam"}
    assert packages_of(imported_names(tmp_path / "x.py")) == {"search"}
