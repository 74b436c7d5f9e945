"""fairseq without the plugin. What an installation without a C++ compiler lacks is filled in.

    python stock.py generate ARGUMENT...

Batches are cut by the NumPy functions that ours uses, too, and --bf16 looks for no TPU.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

BATCHING = Path(__file__).parents[3] / "vaswani_plugin/fairseq_plugin/patches/batching.py"


def complete() -> None:
    """Fill in; call it before fairseq's command. The plugin's package is not imported."""
    from fairseq import options

    for name in ("fairseq.data.data_utils_fast", "fairseq.data.token_block_utils_fast"):
        if not find_spec(name):
            spec = spec_from_file_location(name, BATCHING)
            assert spec and spec.loader
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
    parse = options.parse_args_and_arch

    def without_tpu(*args, **kwargs):
        parsed = parse(*args, **kwargs)
        parsed.tpu = False
        return parsed

    options.parse_args_and_arch = without_tpu


if __name__ == "__main__":
    complete()
    sys.argv = [f"fairseq-{sys.argv[1]}", *sys.argv[2:]]
    import_module(sys.argv[0].replace("fairseq-", "fairseq_cli.")).cli_main()
