"""Measures `vaswani serve` on the loopback address, and compares `Translator`; run by serving.sh.

Three parts: the latency of single requests, alternating with calls of a Translator in this process;
the throughput of one client and of many, whose answers must equal the Translator's; and the memory,
the speed and the stop of the service under clients of all kinds for some minutes.
"""

import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from measurement import ROOT
from soak import verdict, watch

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError, run
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.outputs import write_json

GOALS = {"throughput": 3.0, "added_p95_milliseconds": 30.0, "stop_seconds": 15.0}


class Client:
    """A client with a persistent connection.

    Args:
        port: of the loopback address.
        languages: source and target.
    """

    def __init__(self, port: int, languages: tuple[str, str]) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.languages = dict(zip(("source", "target"), languages, strict=True))

    def translate(self, text: str) -> str:
        """Request the translation of a text.

        Raises:
            UserError: the status is not 200.
        """
        body = json.dumps({"q": text, **self.languages})
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", "/translate", body, headers)
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise UserError(f"the service answers {response.status}: {answer}")
        return answer["translatedText"]


@contextmanager
def serving(args: argparse.Namespace) -> Iterator[tuple[subprocess.Popen, int, Path]]:
    """Start the service; yields its process (the leader of a session), its port and its log."""
    log = args.work / "serve.log"
    command = [sys.executable, "-m", "vaswani_plugin.cli", "serve", "--model", args.model]
    command += ["--port", 0, "--cpu", "--threads", args.threads]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(args.threads)}
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [str(each) for each in command],
            stderr=stream,
            stdout=stream,
            start_new_session=True,
            env=environment,
        )
    try:
        while '"ready"' not in (text := log.read_text(encoding="utf-8")):
            if process.poll() is not None:
                raise UserError(f"vaswani serve has ended, see {log}: {text[-300:]}")
            time.sleep(0.05)
        yield process, int(json.loads(text.split("\n")[0])["url"].split(":")[2].strip("/")), log
    finally:
        process.terminate()  # does nothing where it has ended already
        if process.wait(60):
            print(f"vaswani serve ended with {process.returncode}", file=sys.stderr)


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    cuts = statistics.quantiles(seconds, n=20)
    return {"p50": round(1000 * statistics.median(seconds), 2), "p95": round(1000 * cuts[-1], 2)}


def single_requests(client: Client, translator: Translator, texts: list[str]) -> dict[str, Any]:
    """Milliseconds of requests and of direct calls, alternating on the same texts."""

    def call_translator(text: str) -> None:
        translator.translate(text, long="split")

    times: dict[str, list[float]] = {"translator": [], "service": []}
    for number, text in enumerate(texts):
        calls = [("translator", call_translator), ("service", client.translate)]
        for name, call in calls[:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            call(text)
            times[name].append(time.perf_counter() - start)
    found: dict[str, Any] = {name: quantiles(each) for name, each in times.items()}
    pairs = zip(times["service"], times["translator"], strict=True)
    found["added"] = quantiles([service - bare for service, bare in pairs])
    found["added_p95_milliseconds"] = found["service"]["p95"] - found["translator"]["p95"]
    return found


def throughput(
    port: int, languages: tuple[str, str], texts: list[str], clients: int
) -> tuple[float, dict[str, float], list[str]]:
    """Requests a second of `clients` clients, their latencies, and the answers in order."""
    found = [""] * len(texts)
    seconds = [0.0] * len(texts)
    numbers = iter(range(len(texts)))
    lock = threading.Lock()

    def work(client: Client) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            start = time.perf_counter()
            found[number] = client.translate(texts[number])
            seconds[number] = time.perf_counter() - start

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, [Client(port, languages) for _ in range(clients)]))
    return len(texts) / (time.perf_counter() - start), quantiles(seconds), found


def ask(port: int, body: bytes, *, wait: float = 60, pause: float = 0) -> int:
    """The status of a request on a connection of its own; 0 where the client did not wait for it.

    Args:
        port: of the loopback address.
        body: JSON, or something else.
        wait: seconds for the answer; then the client goes.
        pause: seconds between two parts of the request, and of the answer.
    """
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    request = head % len(body) + body
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection:
        size = max(1, len(request) // 10) if pause else len(request)
        for start in range(0, len(request), size):
            connection.sendall(request[start : start + size])
            time.sleep(pause)
        answer = b""
        try:
            while block := connection.recv(100 if pause else 65536):
                answer += block
                time.sleep(pause)
        except TimeoutError:
            return 0
    return int(answer.split(b" ", 2)[1]) if answer else 0


def under_load(args: argparse.Namespace, process: subprocess.Popen, port: int, log: Path) -> Any:
    """Memory, speed and statuses while clients of all kinds talk to the service, and its stop.

    The kinds: single sentences, paragraphs, 10,000 digits, no JSON, clients that send and read
    slowly, clients that go, and clients that ask much and never read.
    """
    over, done, statuses = threading.Event(), [0] * args.clients, Counter[int]()
    texts, languages = args.texts, dict(zip(("source", "target"), args.languages, strict=True))
    unread = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
    for connection in unread:
        connection.settimeout(0.5)
        with suppress(TimeoutError):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 500)

    def body(text: str) -> bytes:
        return json.dumps({"q": text, **languages}).encode()

    def work(number: int) -> None:
        chance = random.Random(number)
        while not over.is_set():
            text, kind = chance.choice(texts), chance.randrange(40)
            options: dict[str, float] = {}
            if kind == 0:
                text = " ".join(chance.choices(texts, k=30))[:10_000]
            elif kind == 1:
                text = "1234567890" * 1000
            elif kind == 2:
                options = {"wait": 0.05}
            elif kind == 3:
                options = {"pause": 0.05}
            sent = b"{" + body(text) if kind == 4 else body(text)
            try:
                statuses[ask(port, sent, **options)] += 1
            except OSError:
                statuses[0] += 1
            done[number] += 1

    with ThreadPoolExecutor(args.clients) as pool:
        clients = [pool.submit(work, number) for number in range(args.clients)]
        try:
            samples = watch(process, args.minutes, lambda: float(sum(done)), log)
        finally:
            over.set()
        for client in clients:
            client.result()
    start = time.perf_counter()
    process.terminate()
    code = process.wait(60)
    found = verdict(samples) | {"requests": sum(done), "statuses": dict(sorted(statuses.items()))}
    return found | {"exit_code": code, "stop_seconds": round(time.perf_counter() - start, 2)}


def meets_goals(result: dict[str, Any]) -> bool:
    """Whether throughput, latency and, if it was measured, memory meet their goals."""
    return (
        result["many"]["throughput"] >= GOALS["throughput"]
        and result["single"]["added_p95_milliseconds"] <= GOALS["added_p95_milliseconds"]
        and ("load" not in result or stands(result["load"]))
    )


def stands(load: dict[str, Any]) -> bool:
    """Whether memory stayed flat, no error but overload was answered, and the stop was in time."""
    errors = {int(status) for status in load["statuses"] if int(status) >= 500}
    in_time = load["exit_code"] == 0 and load["stop_seconds"] <= GOALS["stop_seconds"]
    return load["flat"]["memory"] and errors <= {503} and in_time


def as_text(result: dict[str, Any]) -> str:
    """The result as text."""
    single, many = result["single"], result["many"]
    rows = [
        f"one request, p95      {single['service']['p95']:8.1f} ms, Translator "
        f"{single['translator']['p95']:.1f} ms: {single['added_p95_milliseconds']:+.1f} ms (at "
        f"most {GOALS['added_p95_milliseconds']:g})",
        f"one client            {many['one_client']:8.1f} requests/s",
        f"{result['clients']} clients            {many['all_clients']:8.1f} requests/s: "
        f"{many['throughput']:.2f} times (at least {GOALS['throughput']:g}), p95 "
        f"{many['latency']['p95']:.0f} ms",
        f"answers               {many['requests']:8} of {many['requests']} without an error; "
        f"{many['other']} differ from the Translator's",
    ]
    if "load" in result:
        memory = result["load"]["memory"]
        rows.append(
            f"memory                {memory['first'] / 2**20:8.0f} MiB, later "
            f"{memory['last'] / 2**20:.0f} MiB, {result['load']['requests']} requests in "
            f"{result['minutes']:g} minutes"
        )
        statuses = ", ".join(f"{count} of {n}" for n, count in result["load"]["statuses"].items())
        rows.append(f"statuses              {statuses} (0: the client did not wait)")
        rows.append(f"stop                  {result['load']['stop_seconds']:8.1f} s after SIGTERM")
    return "\n".join(rows)


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="serving.sh", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a bundle")
    parser.add_argument("--lines", type=Path, required=True, metavar="FILE", help="raw text or .gz")
    parser.add_argument(
        "--requests", type=int, default=2000, metavar="N", help="requests (default: 2000)"
    )
    parser.add_argument(
        "--clients", type=int, default=32, metavar="N", help="parallel clients (default: 32)"
    )
    parser.add_argument(
        "--minutes", type=float, default=20, help="minutes of load; 0: none (default: 20)"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default: 1)")
    parser.add_argument("--work", type=Path, default=ROOT / "work" / "serving")
    return parser


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Run all parts of the benchmark.

    Raises:
        UserError: the service fails, or there are no lines.
    """
    args.texts = [line for line in read_lines(args.lines) if line.strip()]
    if not args.texts:
        raise UserError(f"--lines {args.lines}: no lines in it")
    texts = random.Random(1).choices(args.texts, k=args.requests)
    translator = Translator.from_pretrained(args.model, threads=args.threads)
    args.languages = (translator.source_language, translator.target_language)
    result = {"benchmark": "serving", "processor": processor.description(), "threads": args.threads}
    result |= {"clients": args.clients, "minutes": args.minutes}
    with serving(args) as (process, port, log):
        few = texts[: max(50, args.requests // 10)]
        throughput(port, args.languages, few, args.clients)  # warm-up
        result["single"] = single_requests(Client(port, args.languages), translator, few)
        one, _, _ = throughput(port, args.languages, few, 1)
        many, latency, found = throughput(port, args.languages, texts, args.clients)
        own = [each.text for each in translator.translate(texts, long="split")]
        result["many"] = {"one_client": round(one, 2), "all_clients": round(many, 2)}
        result["many"] |= {"throughput": round(many / one, 3), "latency": latency}
        other = sum(a.split() != b.split() for a, b in zip(found, own, strict=True))
        result["many"] |= {"requests": len(texts), "other": other}
        if args.minutes:
            result["load"] = under_load(args, process, port, log)
    return result


def main(argv: list[str] | None = None) -> None:
    """Command line; exit code 1 where a goal is missed."""
    args = options().parse_args(argv)
    if args.requests < 100 or args.clients < 2 or args.threads < 1 or args.minutes < 0:
        raise UserError("--requests must be at least 100, --clients 2, --threads 1, --minutes 0")
    args.work.mkdir(parents=True, exist_ok=True)
    result = measure(args)
    write_json(args.work / "serving.json", result)
    print(as_text(result))
    if not meets_goals(result):
        raise UserError(f"a goal is missed, see {args.work / 'serving.json'}")


if __name__ == "__main__":
    run(main)
