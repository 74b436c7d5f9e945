"""The arrows between the packages, read from the import statements: who may know whom."""

import ast
import sys
from pathlib import Path

import pytest

from tests.conftest import PLUGIN, REPO

OURS = PLUGIN.name
# What each package may import of ours, besides itself. `architectures`, `configurations`,
# `decoding` and `defaults` are data, `checkpoint_sums` is of the standard library.
MAY_IMPORT = {
    "architectures": {"errors"},
    "errors": set(),
    "checkpoint_sums": set(),
    "building": {
        *("modules", "architectures", "errors"),
        "kernels",  # in one file: see below
    },
    "checkpoint_errors": {"errors"},
    "checkpoint_globals": set(),
    "configurations": {"building", "errors"},
    "decoding": set(),
    "devices": set(),
    "processor": set(),
    "defaults": {"architectures"},
    "text": set(),
    "metrics": {"text", "architectures"},
    "matrix_library": {"devices", "errors", "processor"},
    "modules": set(),
    "kernels": {"modules", "matrix_library", "devices", "errors"},
    "analysis": {
        *("matrix_library", "devices", "metrics", "modules", "text", "inference", "errors"),
    },
    "search": {"modules", "matrix_library", "devices", "errors"},
    "inference": {
        "devices",
        "decoding",
        *("modules", "building", "search", "text", "architectures", "errors"),
        *("checkpoint_errors", "checkpoint_globals", "checkpoint_sums"),
        "metrics",  # the scores on a model card
        "processor",  # which library CTranslate2 may use
    },
    "serving": {"analysis", "errors"},
    "interchange": {
        *("modules", "building", "inference", "models", "architectures", "configurations", "text"),
        *("checkpoint_errors", "decoding", "errors", "search"),
        "tasks",  # makes one for a stock checkpoint
    },
    "models": {
        *("modules", "building", "architectures", "configurations", "errors"),
        "defaults",  # recurrent ones train by other defaults
        "text",  # the hub interface takes raw text
    },
    "criterions": {"modules", "defaults", "errors"},
    "optim": {"modules", "errors"},
    "tasks": {
        *("modules", "models", "search", "text", "decoding", "devices", "errors"),
        "checkpoint_errors",
    },
    "fairseq_patches": {
        "devices",
        *("checkpoint_errors", "checkpoint_globals", "checkpoint_sums", "errors", "text"),
    },
    "training": {
        *("fairseq_patches", "checkpoint_errors", "checkpoint_sums", "errors"),
        "text",  # writes files atomically
        "defaults",  # the log names those of the paper that hold
        *("metrics", "analysis"),  # metering
    },
    "cli": {
        *("architectures", "modules", "models", "criterions", "optim", "search", "tasks"),
        *("metrics", "inference", "interchange", "configurations", "defaults", "text", "decoding"),
        *("analysis", "errors", "serving", "processor"),
    },
}
LIBRARIES = {"torch", "fairseq"}
# Which of the two each package may know.
MAY_KNOW = {
    **dict.fromkeys(
        ["architectures", "checkpoint_sums", "decoding", "errors", "processor", "text", "metrics"],
        set(),
    ),
    **dict.fromkeys(
        [
            "devices",
            "matrix_library",
            "modules",
            "kernels",
            "building",
            "analysis",
            "search",
            "inference",
            "serving",
        ],
        {"torch"},
    ),
    "interchange": {"torch"},
    **dict.fromkeys(
        ["checkpoint_errors", "checkpoint_globals"],
        set(),
    ),
    **dict.fromkeys(["configurations", "defaults"], {"fairseq"}),
    **dict.fromkeys(
        ["models", "criterions", "optim", "tasks", "fairseq_patches", "training"],
        LIBRARIES,
    ),
    "cli": LIBRARIES,
}
# Files that know fairseq though their package should not, and why.
KNOW_FAIRSEQ = {
    "interchange/bundle.py": "fairseq builds its own models",
    "interchange/fairseq_language_model.py": "and its own language models",
    "interchange/fairseq_options.py": "reads the options of fairseq's own transformer",
    "interchange/fairseq_transformer.py": "reads and writes fairseq's own transformer",
    "interchange/stock_import.py": "checks an imported model by building it",
}
# What recipes use of the plugin though its name is private, until it has a public one.
PRIVATE_USES = {
    "benchmarks/engine_agreement.py": {"cli.__main__"},  # exports as `vaswani export`
    "benchmarks/huggingface_agreement.py": {"cli.__main__"},  # likewise
    # prints every command's flags
    "lib/reference_pages.py": {"cli.__main__"},
    # writes what a model takes over from its task
    "config/make_configs.py": {"models._configuration"},
}
# Importing one of them registers all of the plugin, and patches fairseq first.
REGISTERED = {"criterions", "models", "optim", "tasks"}
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
    """Our packages among dotted names: ``vaswani_plugin.search.penalty`` is of ``search``.

    ``vaswani_plugin.register`` is of none: it is the function of the package itself.
    """
    found = {name.split(".")[1] for name in names if name.startswith(f"{OURS}.")}
    return found - {"register"}


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


def test_one_file_knows_the_kernels():
    users = [path for path in files() if "kernels" in packages_of(imported_names(path))]
    users = [path for path in users if package_of(path) != "kernels"]
    assert users == [PLUGIN / "building" / "acceleration.py"]


def libraries_of(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported_names(path)} & LIBRARIES


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PLUGIN)))
def test_few_packages_know_torch_and_fairseq(path):
    name, package = str(path.relative_to(PLUGIN)), package_of(path)
    foreign = libraries_of(path) - MAY_KNOW[package]
    if name in KNOW_FAIRSEQ:
        assert foreign == {"fairseq"}, f"{name} knows it no more: take it out of KNOW_FAIRSEQ"
    else:
        assert not foreign, f"{path}: {package} must not know {sorted(foreign)}"


def test_the_exceptions_are_files_of_ours():
    assert {PLUGIN / name for name in KNOW_FAIRSEQ} <= set(files())


def test_recipes_use_public_names():
    found = {}
    folder = REPO / "recipes"
    for path in folder.rglob("*.py"):
        names = [n.split(".")[1:] for n in imported_names(path) if n.startswith(f"{OURS}.")]
        used = {".".join(n[:2]) for n in names if any(part.startswith("_") for part in n)}
        if used:
            found[str(path.relative_to(folder))] = used
    assert found == PRIVATE_USES


def test_only_registering_and_training_know_the_patches():
    users = [p for p in files() if "fairseq_patches" in packages_of(imported_names(p))]
    assert {package_of(path) for path in users} == {"fairseq_patches", "training"}
    assert "fairseq_patches" in packages_of(imported_names(PLUGIN / "__init__.py"))


def test_the_package_itself_imports_only_the_standard_library():
    """Importing it costs nothing; what `register` imports stands in that function."""
    tree = ast.parse((PLUGIN / "__init__.py").read_text(encoding="utf-8"))
    top = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in top
    }
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("package", sorted(REGISTERED))
def test_importing_what_fairseq_registers_registers_all(package):
    source = (PLUGIN / package / "__init__.py").read_text(encoding="utf-8")
    calls = [node.value for node in ast.parse(source).body if isinstance(node, ast.Expr)]
    assert any(isinstance(c, ast.Call) and c.func.id == "register" for c in calls)


@pytest.mark.parametrize("package", ["models", "tasks"])
def test_fairseq_finds_only_registering_files(package):
    """fairseq imports every file there whose name does not start with an underscore or a dot."""
    for path in (PLUGIN / package).glob("*.py"):
        if path.name.startswith("_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert called & REGISTERING, f"{path} registers nothing: start its name with _"


def test_scripts_of_data_preparation_know_text_alone():
    """fairseq and torch take seconds to load, at every start of a script."""
    scripts = sorted((REPO / "data-prep").rglob("*.py"))
    assert scripts
    for path in scripts:
        names = imported_names(path)
        assert packages_of(names) <= {"text"}, path
        assert not {name.split(".")[0] for name in names} & {"fairseq", "torch"}, path


@pytest.mark.parametrize("path", sorted((REPO / "data-prep").glob("*.py")), ids=lambda p: p.name)
def test_scripts_find_the_plugin_before_they_import_it(path):
    """`checkout` puts the repository on the path where the plugin is not installed."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = [n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in imports]
    ours = [place for place, name in enumerate(modules) if name.startswith(OURS)]
    assert not ours or modules.index("checkout") < ours[0]


def test_references_import_nothing_of_ours():
    for path in (REPO / "tests" / "reference").rglob("*.py"):
        assert not packages_of(imported_names(path)) and OURS not in imported_names(path), path


def test_names_are_read_wherever_they_stand(tmp_path):
    source = "import a.b\ndef f():\n    from vaswani_plugin.search import beam\n"
    (tmp_path / "x.py").write_text(source, encoding="utf-8")
    assert imported_names(tmp_path / "x.py") == {"a.b", f"{OURS}.search.beam"}
    assert packages_of(imported_names(tmp_path / "x.py")) == {"search"}
