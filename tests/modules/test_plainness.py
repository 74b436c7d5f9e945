"""`modules/` is the paper in PyTorch's own functions, read from its syntax trees."""

import ast

import pytest

from tests.conftest import PLUGIN

MODULES = PLUGIN / "modules"


def trees() -> dict[str, ast.Module]:
    found = {p.name: ast.parse(p.read_text(encoding="utf-8")) for p in MODULES.glob("*.py")}
    assert "attention.py" in found
    return found


def dotted(node: ast.AST) -> str:
    """`torch.autograd.Function` of such an expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("name", sorted(trees()))
def test_pytorchs_own_functions_alone(name):
    """No code by device, no gradient by hand, nothing imported but torch and `modules`."""
    standard = {"abc", "collections", "itertools", "math", "typing"}
    for node in ast.walk(trees()[name]):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module]
        for imported in names:
            ours = imported.startswith("vaswani_plugin.modules.")
            assert ours or imported.split(".")[0] in {"torch", *standard}, f"{name}: {imported}"
        expression = dotted(node)
        assert not expression.endswith("autograd.Function"), f"{name}: {expression}"
        assert not expression.endswith(".device.type"), f"{name}: {expression}"
        assert not expression.endswith((".is_cuda", ".is_cpu", ".cuda")), f"{name}: {expression}"


def test_the_softmax_over_attention_scores_stands_in_one_function():
    """Eq. 1 is written once; `F.scaled_dot_product_attention` is PyTorch's own."""
    found = []
    for name, tree in trees().items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                if any(getattr(call.func, "attr", "") == "softmax" for call in calls):
                    found.append(f"{name}:{function.name}")
    assert found == ["attention.py:masked_softmax"]
