"""Reference pages, and code within pages, made from the code while the site is built (a hook).

The flags come from the argument parsers and from fairseq's registries, the Python interface from
the docstrings, so that no page repeats them.
"""

import ast
import logging
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from vaswani_plugin import PUBLIC_NAMES, register  # noqa: E402
from vaswani_plugin.cli.__main__ import COMMANDS, command_parser, load_command  # noqa: E402
from vaswani_plugin.cli.command import summary  # noqa: E402
from vaswani_plugin.model.families import families  # noqa: E402

WIDTH = "100"
"""Width of help texts, in columns."""

FIRST = {"Translator", "LanguageModel", "Parser"}
"""Public names at the top of the page of the Python interface."""


def commands_page() -> str:
    """Makes the page of all commands: what each does, and its `--help`."""
    rows = [f"| [`vaswani {name}`](#{name}) | {summary(load_command(name))} |" for name in COMMANDS]
    parts = ["# Commands", "", "| command | what it does |", "|---|---|", *rows]
    for name in COMMANDS:
        parts += ["", f"## {name}", "", *_fenced(command_parser(name).format_help())]
    return "\n".join(parts) + "\n"


def recipes_page() -> str:
    """Makes the page of all recipes: the `--help` of each."""
    parts = ["# Recipes' options", "", "What each recipe prints for `--help`."]
    for path in sorted((ROOT / "recipes").glob("*.sh")):
        command = ["bash", str(path), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        parts += ["", f"## {path.name}", "", *_fenced(done.stdout)]
    return "\n".join(parts) + "\n"


def names_page() -> str:
    """Makes the page of names registered with fairseq: architectures, and flags of the others."""
    register()
    logging.getLogger().setLevel(logging.WARNING)  # importing fairseq sets it to DEBUG
    parts = ["# Registered names", "", "`--user-dir vaswani_plugin` makes them known.", ""]
    parts += ["## Architectures (`--arch`)"]
    for family in families():
        title = family.title[:1].upper() + family.title[1:]
        parts += ["", f"### {title}", "", f"For `--task {family.task}`.", ""]
        parts += ["| name | source | differs from base by |", "|---|---|---|"]
        for row in family.rows:
            changes = ", ".join(f"{key} {value}" for key, value in row.changes.items())
            parts.append(f"| `{row.name}` | {row.source} | {changes} |")
    for title, name, dataclass in _registered():
        parts += ["", f"## {title} `{name}`", "", *_flags(dataclass)]
    return "\n".join(parts) + "\n"


def python_page() -> str:
    """Makes the page of the public names of `import vaswani_plugin`."""
    parts = ["# Python interface", "", "Each name is imported from `vaswani_plugin`, when it is"]
    parts += ["first used; `import vaswani_plugin` itself loads neither PyTorch nor fairseq."]
    elsewhere = {"ARCHITECTURES": "the [registered names](names.md)"}
    for name, module in sorted(PUBLIC_NAMES.items(), key=lambda item: item[0] not in FIRST):
        if module.startswith("vaswani_plugin.modules."):
            elsewhere[name] = f"[the paper's modules](modules.md#{module.rpartition('.')[2]})"
        if name in elsewhere:
            parts += ["", f"## {name}", "", f"See {elsewhere[name]}."]
        else:
            parts += ["", f"::: {module}.{name}", "    options:", "      heading_level: 2"]
    return "\n".join(parts) + "\n"


def modules_page() -> str:
    """Makes the page of the files of `modules/`: the paper in plain PyTorch."""
    parts = ["# The paper's modules", "", "`vaswani_plugin.modules`: plain PyTorch, no fairseq."]
    for path in sorted((ROOT / "vaswani_plugin" / "modules").glob("[!_]*.py")):
        name = f"vaswani_plugin.modules.{path.stem}"
        parts += ["", f"## {path.stem}", "", f"::: {name}", "    options:"]
        parts += ["      show_root_heading: false", "      show_root_toc_entry: false"]
    return "\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/recipes.md": recipes_page,
    "reference/names.md": names_page,
    "reference/python.md": python_page,
    "reference/modules.md": modules_page,
}
"""By page below docs/, the function that makes it."""


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages; MkDocs calls this hook with the list of files."""
    from mkdocs.structure.files import File

    os.environ["COLUMNS"] = WIDTH
    for name, make in PAGES.items():
        files.append(File.generated(config, name, content=make()))
    return files


CODE = re.compile(r"^\[`([\w.]+)`\]\(\.\./\.\./(\S+\.py)\)$", re.MULTILINE)
"""A line that is only a link: the name of a function, perhaps of a class, and its file."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts a function's code in place of each link of `CODE`; MkDocs calls this for every page."""
    return CODE.sub(lambda link: code_of(ROOT / link[2], link[1]), markdown)


def code_of(path: Path, name: str) -> str:
    """Makes a block of a function's code, without its docstring."""
    text = path.read_text(encoding="utf-8")
    node: Any = ast.parse(text)
    for part in name.split("."):
        node = next(each for each in node.body if getattr(each, "name", None) == part)
    lines = text.split("\n")[: node.end_lineno]
    if ast.get_docstring(node):
        del lines[node.body[0].lineno - 1 : node.body[0].end_lineno]
    code = textwrap.dedent("\n".join(lines[node.lineno - 1 :]))
    return f"```python\n{code}\n```"


def _fenced(text: str) -> list[str]:
    return ["```text", text.rstrip(), "```"]


def _registered() -> Iterator[tuple[str, str, type]]:
    """Yields kind, name and dataclass of what the plugin registers, without architectures."""
    from fairseq import models, registry, tasks

    for name, dataclass in tasks.TASK_DATACLASS_REGISTRY.items():
        if name.startswith("vaswani"):
            yield "Task", name, dataclass
    for name, dataclass in models.MODEL_DATACLASS_REGISTRY.items():
        if name in {family.model for family in families()}:
            yield "Model", name, dataclass
    for kind in ("criterion", "optimizer", "lr_scheduler"):
        for name, dataclass in registry.REGISTRIES[kind]["dataclass_registry"].items():
            if name.startswith("vaswani"):
                yield kind.replace("_", "-").capitalize(), name, dataclass


def _flags(dataclass: type) -> list[str]:
    """Formats a dataclass's fields as a table of flags."""
    rows = []
    for field in fields(dataclass):
        if field.name.startswith("_"):
            continue
        default = field.default if field.default is not MISSING else ""
        help_text = str(field.metadata.get("help", "")).replace("|", r"\|").replace("\n", " ")
        value = "" if default is None or str(default).startswith("${") else f"`{default}`"
        rows.append(f"| `--{field.name.replace('_', '-')}` | {value} | {help_text} |")
    return (
        ["| flag | default | meaning |", "|---|---|---|", *rows]
        if rows
        else ["No flags of its own."]
    )
