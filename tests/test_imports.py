"""The floors of the house, read from the import statements: arrows point down only."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from tests.conftest import PLUGIN, REPO

OURS = PLUGIN.name
# From the ground up. A package imports what stands on a lower floor, and nothing of its own floor.
FLOORS = ({"errors", "processor"}, {"files", "modules"})
FLOORS += ({"kernels", "model", "text"}, {"search", "metrics"}, {"inference"})
FLOORS += ({"figures", "serving", "export", "fairseq_plugin"}, {"ancestors", "cli"})
# What stands on no lower floor, and why.
EXCEPTIONS = {
    ("model/build.py", "kernels"): "the only caller of the kernels",
    ("serving/app.py", "figures"): "the page of the attention explorer",
}
# Everything else knows neither. `model` and up may know torch; `metrics` and `text` do not.
WITHOUT_TORCH = {"errors", "files", "processor", "text", "metrics"}
WITH_FAIRSEQ = {"fairseq_plugin"}
KNOW_FAIRSEQ = {"export/stock_fairseq.py": "reads and writes fairseq's own transformer"}
# What imports files of ours inside functions, and why. `cli` does so to start in a quarter second.
INSIDE_FUNCTIONS = {
    "inference/bundle.py": "a bundle for CTranslate2 needs no torch",
    "inference/checkpoints.py": "the grammar of parsers",
    "inference/search_engine.py": "attention, for pictures",
    "inference/translator.py": "attention, for pictures",
    "kernels/__init__.py": "kernels of models that are accelerated",
    "metrics/bleu.py": "sacremoses takes longer to import than scoring does",
    "model/build.py": "the decoder of parsers",
    "text/pipeline.py": "each coding has its own libraries",
}


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
    """Our packages among dotted names; `vaswani_plugin.register` and the version are of none."""
    found = {name.split(".")[1] for name in names if name.startswith(f"{OURS}.")}
    return found - {"register", "__version__"}


def files() -> list[Path]:
    found = sorted(p for p in PLUGIN.rglob("*.py") if p != PLUGIN / "__init__.py")
    assert found, "the plugin has no files: this test would show nothing"
    return found


def package_of(path: Path) -> str:
    return path.relative_to(PLUGIN).with_suffix("").parts[0]


def floor_of(package: str) -> int:
    found = [number for number, floor in enumerate(FLOORS) if package in floor]
    assert found, f"{package}: a new package needs its floor here"
    return found[0]


def test_arrows_point_down():
    upwards = set()
    for path in files():
        names, package = imported_names(path), package_of(path)
        assert OURS not in names, f"{path}: import the module that you mean, not the package"
        for other in packages_of(names) - {package}:
            if floor_of(other) >= floor_of(package):
                upwards.add((str(path.relative_to(PLUGIN)), other))
    assert upwards == set(EXCEPTIONS)


def test_no_circle_of_files():
    """Wherever in the files the imports stand; a `CycleError` names a circle."""
    paths = {".".join(p.relative_to(REPO).with_suffix("").parts): p for p in files()}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {}
    for name, path in paths.items():
        found = (n if n in paths else n.rpartition(".")[0] for n in imported_names(path))
        graph[name] = {*found} & paths.keys() - {name}
    assert len([*TopologicalSorter(graph).static_order()]) == len(paths)


def test_imports_inside_functions_are_few():
    lazy = set()
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            inner = ast.walk(node) if isinstance(node, ast.FunctionDef) else ()
            if any(str(getattr(each, "module", "")).startswith(OURS) for each in inner):
                lazy.add(str(path.relative_to(PLUGIN)))
    assert {path for path in lazy if not path.startswith("cli/")} == set(INSIDE_FUNCTIONS)


def test_one_room_knows_fairseq():
    knowing = set()
    for path in files():
        libraries = {name.split(".")[0] for name in imported_names(path)}
        package = package_of(path)
        assert "torch" not in libraries or package not in WITHOUT_TORCH, path
        if "fairseq" in libraries and package not in WITH_FAIRSEQ:
            knowing.add(str(path.relative_to(PLUGIN)))
    assert knowing == set(KNOW_FAIRSEQ)


def test_scripts_of_data_preparation_know_text_alone():
    """fairseq and torch take seconds to load, at every start of a script; a bundle has a model."""
    scripts = sorted((REPO / "data-prep").rglob("*.py"))
    assert scripts
    for path in scripts:
        names = imported_names(path)
        of_models = {"inference", "export"} if path.name == "bundle.py" else set()
        assert packages_of(names) <= {"files", "text", "errors"} | of_models, path
        assert not {name.split(".")[0] for name in names} & {"fairseq", "torch"}, path


def test_scripts_find_the_plugin_before_they_import_it():
    """`checkout` puts the repository on the path where the plugin is not installed."""
    for path in (REPO / "data-prep").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "\nfrom vaswani_plugin" in text and path.name != "checkout.py":
            assert "\nfrom checkout import" in text.partition("\nfrom vaswani_plugin")[0], path


def test_references_import_nothing_of_ours():
    for path in (REPO / "tests" / "reference").rglob("*.py"):
        assert not packages_of(imported_names(path)) and OURS not in imported_names(path), path
