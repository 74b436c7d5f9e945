"""`vaswani serve`: a bundle behind HTTP, with LibreTranslate's interface and a page."""

import argparse
from pathlib import Path

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._start import load_translator
from vaswani_plugin.cli._types import positive_int, seconds
from vaswani_plugin.decoding import PAPER_DECODING

HELP = "translate over HTTP: LibreTranslate's interface and a web page"
EXAMPLE = "vaswani serve --model work/quickstart/model --port 5000"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    flags.add_model(parser)
    host = "address to listen on; 0.0.0.0 is all of this machine's (default: %(default)s)"
    add("--host", default="127.0.0.1", help=host)
    port = "port to listen on; 0 chooses a free one (default: %(default)s)"
    add("--port", type=int, default=5000, help=port)
    flags.add_beam(parser, PAPER_DECODING["beam"])
    flags.add_device(parser)
    flags.add_precision(parser)
    keys = "require an API key; the file has one per line: KEY [REQUESTS PER MINUTE]"
    add("--api-keys", type=Path, metavar="FILE", help=keys)
    rate = "most requests per minute from one address, if no keys are required (default: no limit)"
    add("--requests-per-minute", type=positive_int, metavar="N", help=rate)
    proxies = "believe X-Forwarded-For of these addresses and networks, separated by commas: a web "
    proxies += "server in front of the service (default: of none)"
    add("--trusted-proxies", metavar="LIST", help=proxies)
    origin = "allow calls from this web site's pages; * allows all; may be repeated (default: none)"
    add("--allow-origin", action="append", default=[], metavar="URL", help=origin)
    limits = parser.add_argument_group("limits of a request")
    batches = parser.add_argument_group("queue and batches")
    for group, flag, default, what in (
        (limits, "--characters", 10_000, "most characters of text in a request"),
        (limits, "--subwords", 5_000, "most subwords of a request"),
        (limits, "--body-bytes", 1 << 20, "most bytes of a request"),
        (batches, "--queue-lines", 1024, "most sentences that wait; more are refused"),
        (batches, "--batch-lines", 64, "most sentences in a batch"),
    ):
        what = f"{what} (default: %(default)s)"
        group.add_argument(flag, type=positive_int, default=default, metavar="N", help=what)
    for group, flag, default, what in (
        (limits, "--timeout", 60.0, "seconds until an unanswered request gets an error"),
        (limits, "--keep-alive", 75.0, "seconds that a connection stays open between requests"),
        (batches, "--batch-wait", 0.003, "seconds that a line waits for others to form a batch"),
    ):
        what = f"{what} (default: %(default)s)"
        group.add_argument(flag, type=seconds, default=default, metavar="SECONDS", help=what)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM; returns 0.

    Raises:
        ValueError: flags, keys or a bundle that can't be used, or the extra is not installed.
        OSError: a file can't be read.
    """
    try:
        import babel  # noqa: F401
        import limits as _limits  # noqa: F401
        import lxml  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}: vaswani serve needs pip install -e '.[serve]'") from error
    from vaswani_plugin.serving.app import Gate, read_keys
    from vaswani_plugin.serving.server import bound_socket
    from vaswani_plugin.serving.server import run as serve
    from vaswani_plugin.serving.texts import Limits
    from vaswani_plugin.serving.work import Service

    keys = None if args.api_keys is None else read_keys(args.api_keys)
    limits = Limits(
        body_bytes=args.body_bytes,
        characters=args.characters,
        subwords=args.subwords,
        queue=args.queue_lines,
        batch=args.batch_lines,
        batch_seconds=args.batch_wait,
        seconds=args.timeout,
        idle_seconds=args.keep_alive,
    )
    gate = Gate(keys, args.requests_per_minute)
    with bound_socket(args.host, args.port) as listener:
        translator = load_translator(args)
        beam = args.beam or translator.settings.beam or PAPER_DECODING["beam"]
        service = Service(translator, beam, limits)
        serve(service, gate, listener, args.allow_origin, args.trusted_proxies)
    return 0
