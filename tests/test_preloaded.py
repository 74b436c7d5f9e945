"""Programs that the tests start from a preloaded process behave as in a Python of their own."""

import json
import os
import signal
import subprocess
import sys
import time

import preloaded
import pytest

SHOW = """
import json, os, sys, threading
word, text = os.environ["WORD"], sys.stdin.read()
print(json.dumps([__name__, sys.argv, os.getcwd(), word, text, sys.path[0]]))
print("to stderr", file=sys.stderr)
threading.Thread(target=lambda: print("a thread ends")).start()
"""


@pytest.mark.parametrize("how", ["script", "module", "code"])
def test_as_in_a_python_of_its_own(how, tmp_path):
    (tmp_path / "show.py").write_text(SHOW, encoding="utf-8")
    start = {"script": [tmp_path / "show.py"], "module": ["-m", "show"], "code": ["-c", SHOW]}[how]
    options = {"input": "text", "capture_output": True, "text": True, "cwd": tmp_path}
    options["env"] = os.environ | {"OMP_NUM_THREADS": "1", "WORD": "w", "PYTHONPATH": str(tmp_path)}
    ours = preloaded.run(*start, "a b", **options)
    theirs = subprocess.run([sys.executable, *start, "a b"], **options)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, theirs.stdout, theirs.stderr)
    assert json.loads(ours.stdout.split("\n")[0])[3:5] == ["w", "text"]


@pytest.mark.parametrize(
    "code",
    [
        "sys.exit(3)",
        "sys.exit()",
        "sys.exit('why')",
        "sys.excepthook = lambda *error: print(error[1], file=sys.stderr); 1 / 0",
        "1 / 0",
        "os.kill(os.getpid(), 15)",
        "os._exit(7)",
    ],
)
def test_how_it_ends(code):
    code = f"import os, sys; {code}"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ours = preloaded.run("-c", code, capture_output=True, text=True, env=environment)
    theirs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ours.returncode == theirs.returncode
    assert ours.stderr.split("\n")[-2:] == theirs.stderr.split("\n")[-2:]


def test_fairseq_is_there_and_the_plugin_is_not():
    code = (
        "import json, sys; print(json.dumps([name in sys.modules for name in"
        " ('torch', 'fairseq', 'fairseq_cli.train', 'vaswani_plugin')]))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = preloaded.run("-c", code, capture_output=True, text=True, env=environment)
    assert json.loads(done.stdout) == [True, True, False, False]


def test_torch_is_there_alone():
    code = "import sys; print([name in sys.modules for name in ('torch', 'fairseq', 'omegaconf')])"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = preloaded.run_with_torch("-c", code, capture_output=True, text=True, env=environment)
    assert done.stdout == "[True, False, False]\n"


def test_what_imports_have_set_is_no_other_environment():
    """sklearn sets it, and the process of the tests may have imported sklearn since the start."""
    code = "import os, sys; print('torch' in sys.modules, os.environ['KMP_INIT_AT_FORK'])"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "KMP_INIT_AT_FORK": "FALSE"}
    done = preloaded.run("-c", code, capture_output=True, text=True, env=environment)
    assert done.stdout == "True FALSE\n"


def test_another_number_of_threads_gets_a_new_python():
    code = "import sys; print('torch' in sys.modules)"
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = preloaded.run("-c", code, capture_output=True, text=True, env=environment)
    assert done.stdout == "False\n"


def test_it_ends_with_what_started_it(tmp_path):
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    client = [*preloaded._client(preloaded._folder()), "-c", f"{code}; time.sleep(600)"]
    process = subprocess.Popen(client, env=os.environ | {"OMP_NUM_THREADS": "1"})
    until = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    started = int((tmp_path / "pid").read_text())
    while os.path.exists(f"/proc/{started}"):
        assert time.monotonic() < until
        time.sleep(0.01)
