"""Proof by numbers: a kernel takes a leaf's place only where both compute the same.

Both run on small random inputs of the real widths, with random weights and under the same random
numbers. So an edited equation, a subclass, one more parameter and dropout in another place are all
one case: the results differ, the leaf stays as it is written, and one line of the log says so. The
result holds for the functions of `modules`, and the leaf's classes, options, shapes, type, device.
"""

import copy
import logging
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from vaswani_plugin.modules import attention, embedding, layers, loss, transformer
from vaswani_plugin.processor import runs_on_host

logger = logging.getLogger(__name__)
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
"""Greatest difference, over the greatest number; in types of 16 bits `ROUGH`."""
ROUGH = 0.05
LARGE = 8  # In trials some numbers are so many times as large: an edit may change those alone.
Trial = Callable[[Any], list[Tensor | None]]
"""Runs a leaf, or its kernel; returns the results, None for a missing gradient."""

_OF_EVERY_MODULE = frozenset(vars(nn.Module())) - {"training"}
_proven: dict[Hashable, bool] = {}
_LOCK = threading.RLock()  # of the process's random state


def can_run_on(*tensors: Tensor, under_autocast: bool = False, on_any_device: bool = False) -> bool:
    """Return whether a kernel can run on these tensors; else PyTorch's own functions do.

    That is in plain autograd, without `torch.compile`, `torch.func` and tensor subclasses.
    """
    return (
        all(type(x) in (Tensor, torch.nn.Parameter) for x in tensors)
        and (on_any_device or all(runs_on_host(x.device) for x in tensors))
        and not torch.compiler.is_compiling()
        and (under_autocast or not torch.is_autocast_enabled("cpu"))
        # no public name tells whether a transform of torch.func is running
        and not torch._C._are_functorch_transforms_active()
    )


def is_touched(part: nn.Module) -> bool:
    """Return whether someone hooked on to a module, or gave it a `forward` of its own."""
    # PyTorch has no public name for a module's hooks.
    hooks = part._forward_hooks, part._forward_pre_hooks, part._backward_hooks
    return "forward" in vars(part) or any(hooks) or bool(part._backward_pre_hooks)


def equations() -> Hashable:
    """Return the functions of the files of `modules` and of their classes, as they are now."""
    files = attention, embedding, layers, loss, transformer
    classes = {x for each in files for x in vars(each).values() if isinstance(x, type)} - {Tensor}
    return tuple(x for each in (*files, *classes) for x in vars(each).values() if callable(x))


def structure(module: nn.Module) -> Hashable:
    """Return all that decides what a module computes, but for the values of its weights."""
    tensors = (*module.named_parameters(), *module.named_buffers())
    return options(module), tuple((n, x.shape, x.dtype, x.device.type) for n, x in tensors)


def options(module: nn.Module) -> Hashable:
    """Return the classes of a module's parts, what is set in them, and whether they are touched."""
    settings: list[Any] = []
    for part in module.modules():
        settings += type(part), type(part).forward, is_touched(part), *part._modules
        attributes = vars(part)
        for name in sorted(attributes.keys() - _OF_EVERY_MODULE):
            value = attributes[name]
            is_function = callable(value) and not isinstance(value, nn.Module)
            if value is None or is_function or isinstance(value, (int, float, str, tuple)):
                settings += name, value
    return tuple(settings)


def twin(module: nn.Module, rows: dict[int, int] | None = None, on_cpu: bool = True) -> nn.Module:
    """Copy a module with random weights, so that a parameter that is 0 or 1 at first counts, too.

    `rows` are the greatest numbers of rows by a parameter's id; all other shapes stay.
    """
    memo: dict[int, Any] = {}
    for part in module.modules():  # what else a module refers to, such as a dictionary, is shared
        others = (value for name, value in vars(part).items() if name not in _OF_EVERY_MODULE)
        memo |= {id(x): x for x in others if not isinstance(x, (Tensor, nn.Module, list, dict))}
    for parameter in module.parameters():
        shape = parameter[: (rows or {}).get(id(parameter))].shape if parameter.dim() else ()
        bound = (3 / shape[-1]) ** 0.5 if len(shape) > 1 else 1.0
        values = torch.empty(shape, dtype=parameter.dtype, device="cpu").uniform_(-bound, bound)
        if len(shape) > 1 and id(parameter) not in (rows or {}):
            values[torch.randperm(shape[0])[: 1 + shape[0] // 16]] *= LARGE
        values = values if on_cpu else values.to(parameter.device)
        memo[id(parameter)] = nn.Parameter(values, parameter.requires_grad)
    return copy.deepcopy(module, memo)


def is_proven(
    name: str | None, key: Hashable, file: str, leaves: Callable[[], Iterable[Any]], trial: Trial
) -> bool:
    """Return whether a leaf and its kernel give the same results; asked once for each key.

    The log has the leaf's `name`, unless it is None, and the `file` of its kernel. `leaves` makes
    both with the same weights; `trial` runs either, both times with the same random numbers.
    """
    key = key, equations()
    if key not in _proven:
        results = []
        with _LOCK, torch.device("cpu"), torch.random.fork_rng(devices=()), torch.no_grad():
            torch.default_generator.manual_seed(5)
            try:
                for leaf in leaves():
                    torch.default_generator.manual_seed(7)
                    results.append(trial(leaf))
            except Exception:  # a kernel may find a parameter missing, or of another shape
                logger.debug("the proof of a kernel failed", exc_info=True)
        is_whole = len(results) == 2 and len(results[0]) == len(results[1])
        _proven[key] = is_whole and all(map(is_close, *results))
        if name and not _proven[key]:
            logger.warning(
                f"{name} does not compute what vaswani_plugin/kernels/{file} does: it runs as it "
                f"is written, slower. Change the kernel, too, or set VASWANI_KERNELS=off"
            )
    return _proven[key]


def is_close(expected: Tensor | None, actual: Tensor | None) -> bool:
    """Return whether two results are equal but for rounding."""
    if expected is None or actual is None or expected.dtype != actual.dtype:
        return expected is actual
    greatest = float(expected.abs().nan_to_num().max()) if expected.numel() else 0.0
    atol = TOLERANCE.get(expected.dtype, ROUGH) * max(1.0, greatest)
    return expected.shape == actual.shape and torch.allclose(expected, actual, 0, atol, True)


def with_gradients(
    leaf: Any, inputs: list[Tensor], parameters: list[Tensor]
) -> list[Tensor | None]:
    """Run a leaf; return its value, and the gradients of inputs and parameters."""
    with torch.enable_grad():
        y = leaf(*inputs)
        weights = torch.arange(y.numel()).to(y).view_as(y) / y.numel() - 0.5
        leaves = [x for x in (*inputs, *parameters) if x.requires_grad]
        gradients = torch.autograd.grad((y * weights).sum(), leaves, allow_unused=True)
    return [y.detach(), *gradients]
