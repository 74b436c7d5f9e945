"""`vaswani serve`: a bundle behind HTTP, with LibreTranslate's interface and a page."""

import argparse
from pathlib import Path

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._flags import count
from vaswani_plugin.decoding import PAPER_DECODING

HELP = "translate over HTTP with a bundle: LibreTranslate's interface, and a page"
EXAMPLE = "vaswani serve --model work/quickstart/model --port 5000"


def seconds(text: str) -> float:
    """A duration above 0.

    Raises:
        argparse.ArgumentTypeError: it is not above 0, or has no end.
        ValueError: it is no number.
    """
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a number of seconds above 0")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--model", type=Path, required=True, metavar="DIR", help="a bundle, as the recipes make it"
    )
    parser.add_argument("--host", default="127.0.0.1", help="(default: %(default)s)")
    parser.add_argument("--port", type=int, default=5000, help="0: a free one (default: 5000)")
    parser.add_argument("--beam", type=count, help="width (default: that of the bundle, else 4)")
    flags.add_processor(parser)
    flags.add_precision(parser)
    parser.add_argument(
        "--api-keys",
        type=Path,
        metavar="FILE",
        help="answer only who gives a key of this file: a line for each, KEY [REQUESTS A MINUTE]",
    )
    parser.add_argument(
        "--requests-per-minute",
        type=count,
        metavar="N",
        help="of an address, where keys are not asked for",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="URL",
        help="a web site whose pages may call the service; '*': all (default: none)",
    )
    limits = parser.add_argument_group("limits of a request")
    limits.add_argument("--characters", type=count, default=10_000, help="(default: %(default)s)")
    limits.add_argument("--body-bytes", type=count, default=1 << 20, help="(default: %(default)s)")
    limits.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="SECONDS", help="(default: 60)"
    )
    queue = parser.add_argument_group("batches")
    queue.add_argument(
        "--queue-lines", type=count, default=1024, help="may wait (default: %(default)s)"
    )
    queue.add_argument(
        "--batch-lines", type=count, default=64, help="at once (default: %(default)s)"
    )
    queue.add_argument(
        "--batch-wait",
        type=seconds,
        default=0.003,
        metavar="SECONDS",
        help="for others to join (default: 0.003)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM; returns 0.

    Raises:
        ValueError: flags, keys or a bundle that can't be used, or the extra is not installed.
        OSError: a file can't be read.
    """
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}: vaswani serve needs pip install '.[serve]'") from error
    from vaswani_plugin.interchange.translation import load_translator
    from vaswani_plugin.serving.keys import read_keys
    from vaswani_plugin.serving.limits import BatchLimits, Limits
    from vaswani_plugin.serving.monitoring import Log
    from vaswani_plugin.serving.server import bound_socket
    from vaswani_plugin.serving.server import run as serve
    from vaswani_plugin.serving.service import Service

    keys = None if args.api_keys is None else read_keys(args.api_keys)
    limits = Limits(
        body_bytes=args.body_bytes,
        characters=args.characters,
        queue_lines=args.queue_lines,
        seconds=args.timeout,
        requests_per_minute=args.requests_per_minute,
    )
    with bound_socket(args.host, args.port) as listener:
        device = flags.processor(args)
        dtype = flags.chosen_dtype(args, device)
        translator = load_translator(args.model, device=device, dtype=dtype, threads=args.threads)
        beam = args.beam or translator.settings.beam or PAPER_DECODING["beam"]
        batch_limits = BatchLimits(args.batch_wait, args.batch_lines)
        service = Service(translator, beam, limits, batch_limits, keys, Log())
        serve(service, listener, args.allow_origin)
    return 0
