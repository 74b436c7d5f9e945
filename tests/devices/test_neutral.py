"""Code that runs on every device, read from the syntax trees."""

import ast
from pathlib import Path

import pytest

from tests.conftest import PLUGIN

FACTORIES = {
    *("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint"),
    *("randn", "randperm", "scalar_tensor", "tensor", "zeros"),
}
PACKAGES = sorted(path.name for path in PLUGIN.iterdir() if (path / "__init__.py").is_file())
MAY_ASK_FOR_A_CPU = {"devices.py", "kernels"}


def files(*folders: str) -> dict[str, ast.Module]:
    paths = [path for folder in folders for path in (PLUGIN / folder).rglob("*.py")]
    return {str(p.relative_to(PLUGIN)): ast.parse(p.read_text(encoding="utf-8")) for p in paths}


def factories(tree: ast.AST) -> list[ast.Call]:
    """Calls of torch's factories, but for those of a parameter.

    A parameter is made on PyTorch's default device, as those of its own modules are.
    """
    found: list[ast.Call] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name == "nn.Parameter":
                continue
            module, _, function = name.rpartition(".")
            found += [node] if module == "torch" and function in FACTORIES else []
        found += factories(node)
    return found


def without_device(tree: ast.AST) -> list[str]:
    return [
        f"line {call.lineno}: {ast.unparse(call)}"
        for call in factories(tree)
        if not any(keyword.arg == "device" for keyword in call.keywords)
    ]


def asks_for_a_cpu(tree: ast.AST) -> list[str]:
    """Comparisons of a device's type with "cpu", and moves by name."""
    found = []
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, (ast.Compare, ast.Call)) else ""
        is_question = isinstance(node, ast.Compare) and ".type" in text and "'cpu'" in text
        if is_question or (isinstance(node, ast.Call) and text.endswith(".cuda()")):
            found.append(f"line {node.lineno}: {text}")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_every_tensor_is_made_on_a_named_device(package):
    trees = files(package).items()
    found = {name: lines for name, tree in trees if (lines := without_device(tree))}
    found.pop("figures/flops.py", None)  # it works under `torch.device("meta")`
    assert not found


def test_nothing_but_the_kernels_asks_whether_a_device_is_a_cpu():
    """`vaswani_plugin/devices.py` asks for all others; `vaswani_plugin/cli` names devices."""
    found = {
        name: lines
        for name, tree in files(".").items()
        if not {name, Path(name).parts[0]} & MAY_ASK_FOR_A_CPU and (lines := asks_for_a_cpu(tree))
    }
    assert not found


def test_the_tests_above_would_notice():
    tree = ast.parse("x = f(torch.zeros(3))\nnn.Parameter(torch.empty(2))\ny = x.new_zeros(2)")
    assert without_device(tree) == ["line 1: torch.zeros(3)"]
    assert not without_device(ast.parse("torch.arange(3, device=x.device)"))
    for text in ("if x.device.type == 'cpu': pass", "model.cuda()", "y = 'cpu' != d.type"):
        assert len(asks_for_a_cpu(ast.parse(text))) == 1
    assert len(PACKAGES) > 5 and len(files(*PACKAGES)) > 50
