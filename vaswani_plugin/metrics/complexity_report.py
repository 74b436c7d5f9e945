"""Table 1 with real numbers, and the times of its layers, as text."""

from typing import Any

from tabulate import tabulate

from vaswani_plugin.metrics.complexity import LayerCost


def as_text(result: dict[str, Any]) -> str:
    """The tables as text.

    Args:
        result: the JSON object of `vaswani complexity`.
    """
    n, d, k, r = (result[name] for name in "ndkr")
    rows = [LayerCost(**row) for row in result["layers"]]

    table = [
        {
            "layer": row.layer,
            "complexity per layer": f"{row.operations_formula} = {row.operations:,}",
            "sequential operations": _number(row.sequential_formula, row.sequential_operations),
            "maximum path length": _number(row.path_formula, row.path_length),
        }
        for row in rows
    ]
    lines = [f"n {n}, d {d}, k {k}, r {r}; constants left out, as in O(.)"]
    lines += [tabulate(table, headers="keys", disable_numparse=True), ""]
    lines.append(
        f"Self-attention costs {n / d:.3g} times what the recurrent layer does (n / d), "
        f"{n / r:.3g} times what the restricted one does (n / r). A convolution needs "
        f"{layers_to_join(n, k)} layers to join all positions."
    )
    if "measured" in result:
        lines += ["", _measured_text(result["measured"])]
    return "\n".join(lines)


def layers_to_join(n: int, k: int) -> int:
    """log_k(n), rounded up: the least number of layers of width k over n positions."""
    layers, reach = 0, 1
    while reach < n:
        layers, reach = layers + 1, reach * k
    return layers


def _number(formula: str, value: float) -> str:
    return formula if formula == "1" else f"{formula} = {value:,.3g}"


def _measured_text(times: dict[str, Any]) -> str:
    table = [
        {
            "layer": layer["layer"],
            "formula": layer["formula"],
            f"ms at n {times['lengths'][0]}": 1000 * layer["seconds_over_n"][0],
            f"at n {times['lengths'][-1]}": 1000 * layer["seconds_over_n"][-1],
            "power of n": layer["fitted_power_of_n"],
            f"ms at d {times['widths'][0]}": 1000 * layer["seconds_over_d"][0],
            f"at d {times['widths'][-1]}": 1000 * layer["seconds_over_d"][-1],
            "power of d": layer["fitted_power_of_d"],
        }
        for layer in times["layers"]
    ]
    return (
        f"Measured on one core, one sequence, forward; n varies at d {times['d']}, d at n "
        f"{times['n']}; powers fitted:\n" + tabulate(table, headers="keys", floatfmt=".3g")
    )
