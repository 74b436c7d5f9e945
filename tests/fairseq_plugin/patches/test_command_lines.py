"""fairseq's commands: one line for a mistake, our task for our architectures, bfloat16."""

import argparse
import re
import shutil
import sys
from pathlib import Path

import pytest
from fairseq import options
from fairseq_flags import parsed

import vaswani_plugin
from tests.conftest import PLUGIN, ancestors, fairseq_environment
from tests.support.commands import run_python
from vaswani_plugin.fairseq_plugin.patches import command_lines
from vaswani_plugin.metrics.segments import read_generate_output

vaswani_plugin.register()


def run_as(path: Path, source: str) -> BaseException:
    """The error that `source` raises, as if it stood in the file `path`."""
    with pytest.raises(BaseException) as error:
        exec(compile(source, str(path), "exec"), {})
    return error.value


OURS, FAIRSEQ = PLUGIN / "models" / "x.py", command_lines.FAIRSEQ / "x.py"
COMMAND = command_lines.COMMANDS / "x.py"
MISTAKE = "from vaswani_plugin.errors import UserError\nraise UserError('--d-k is 0;\\n  give 1')"


@pytest.mark.parametrize(
    ("path", "source", "users"),
    [
        (OURS, MISTAKE, True),
        (OURS, "raise ValueError('x')", False),
        (OURS, "open('/no/such/file')", False),
        (FAIRSEQ, "raise ValueError('x')", False),
        (FAIRSEQ, "raise ValueError('--finetune-from-model x does not exist')", True),
        (FAIRSEQ, "raise FileNotFoundError('Dataset not found: valid')", True),
        (FAIRSEQ, "raise OSError('Model file not found: x')", True),
        (FAIRSEQ, "raise ImportError('Please install editdistance')", True),
        (FAIRSEQ, "raise Exception('Size of sample #9 is invalid')", True),
        (COMMAND, "raise AssertionError('Must specify batch size with --max-tokens')", True),
        (COMMAND, "raise AssertionError('x')", False),
        (COMMAND, "raise AssertionError('must contain the same number of examples')", True),
        (COMMAND, "import fileinput\nnext(fileinput.input(['/no/such/file']))", True),
        (FAIRSEQ, "raise RuntimeError('[gloo/pair.cc:5] Connection closed by peer [::1]')", True),
        (FAIRSEQ, "import omegaconf\nomegaconf.OmegaConf.create({'a': '${b}'}).a", True),
    ],
)
def test_whose_mistake_it_is(path, source, users):
    assert command_lines.is_users_error(run_as(path, source)) == users


def test_a_mistake_is_one_line_and_a_defect_keeps_its_traceback(monkeypatch, capsys):
    passed_on = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: passed_on.append(error))
    monkeypatch.setattr(sys, "argv", ["/site-packages/fairseq_cli/train.py"])
    command_lines.print_users_errors_in_one_line()
    mistake, defect = run_as(OURS, MISTAKE), run_as(OURS, "int('x')")
    for error in (mistake, defect):
        sys.excepthook(type(error), error, error.__traceback__)
    assert capsys.readouterr().err == "error: --d-k is 0; give 1\n"
    assert passed_on == [defect]


def test_training_is_quiet(stock_run):
    run, _ = stock_run
    assert run.stderr == ""
    assert not re.search("warning", run.stdout, re.IGNORECASE)


def test_generating_is_quiet_and_complete(toy_data_bin, stock_checkpoint, tmp_path):
    """Its output holds its log, which says how many sentences there are."""
    run = run_python(  # in a fork of this process, the log is set up otherwise
        *("-m", "fairseq_cli.generate", toy_data_bin, "--path", stock_checkpoint, "--cpu"),
        *("--max-tokens", 500, "--beam", 1, "--max-len-b", 10, "--user-dir", PLUGIN),
        **{"capture_output": True, "text": True, "env": fairseq_environment()},
    )
    assert run.returncode == 0, run.stderr
    # newer PyTorch's word on fairseq's own code comes before any plugin is loaded
    stderr = re.sub(r".*`torch\.jit\.script` is deprecated.*\n.*\n", "", run.stderr)
    assert not re.search("warning|DEBUG", stderr + run.stdout)
    (tmp_path / "output").write_text(run.stdout)
    assert len(read_generate_output(tmp_path / "output").references) == 60
    assert sorted(int(n) for n in re.findall(r"^H-(\d+)", run.stdout, re.M)) == list(range(60))


@pytest.mark.parametrize("flags", [["--bf16"], ["--bf16", "--tpu"]])
def test_bf16_asks_for_no_tpu(flags):
    args = parsed("--arch", "vaswani_debug", *flags)
    assert args.bf16 and args.tpu == ("--tpu" in flags)


@pytest.mark.parametrize(
    ("flags", "task"),
    [
        (("--arch", "vaswani_base", "--real-tokens", "3125"), "vaswani_translation"),
        pytest.param(("-a", "vaswani_attention_lstm"), "vaswani_translation", marks=ancestors),
        (("--arch", "vaswani_parser_guided"), "vaswani_parsing"),
        (("--arch=vaswani_lm_tiny",), "vaswani_language_modeling"),
        (("--arch", "vaswani_base", "--task", "translation"), "translation"),
        (("--arch", "transformer"), "translation"),
    ],
)
def test_our_architectures_are_trained_by_our_tasks(flags, task):
    assert parsed(*flags).task == task


def test_validate_takes_the_task_of_the_checkpoint(tmp_path):
    def validation(**kinds: bool) -> argparse.Namespace:
        arguments = [str(tmp_path), "--path", "a.pt"]
        return options.parse_args_and_arch(options.get_validation_parser(), arguments, **kinds)

    assert validation().task == "translation"
    assert not hasattr(validation(suppress_defaults=True), "task")  # they win over the checkpoint's


@pytest.mark.parametrize(
    ("flags", "listed", "absent"),
    [
        (("--arch", "vaswani_tiny", "--help"), ("--d-model", "--real-tokens"), "--units"),
        (("--help",), ("--arch",), "--d-model"),
    ],
)
def test_help_lists_the_flags_of_the_named_model_and_its_task(flags, listed, absent, capsys):
    with pytest.raises(SystemExit) as exit:
        options.parse_args_and_arch(options.get_training_parser(), list(flags))
    flags = set(re.findall(r"^ *(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    assert exit.value.code == 0 and flags >= set(listed) and absent not in flags
    with pytest.raises(ValueError, match="--arch: give"):
        options.parse_args_and_arch(options.get_training_parser(), ["DATA", "--nope"])
    with pytest.raises(ValueError, match="--num-batch-buckets is for TPUs"):
        parsed("--arch", "vaswani_debug", "--num-batch-buckets", "4")


def test_unknown_words_are_replaced(run_fairseq, toy_data_bin, stock_checkpoint, tmp_path):
    for side in ("src", "tgt"):
        shutil.copy(toy_data_bin / f"dict.{side}.txt", tmp_path)
        (tmp_path / f"test.src-tgt.{side}").write_text("cat cat\n")
    (tmp_path / "words").write_text("cat Katze\n")
    flags = ("--task", "vaswani_translation", "--path", stock_checkpoint, "--unkpen", -99, "--cpu")
    flags += ("--dataset-impl", "raw", "--replace-unk", tmp_path / "words")
    for more in ((), ("--print-alignment",)):
        run = run_fairseq("generate", tmp_path, *flags, *more)
        assert {*re.search(r"H-0\t\S+\t(.*)", run.stdout)[1].split()} == {"Katze"}, run.stderr


def test_languages_of_a_tokenizer_are_the_datas(toy_data_bin):
    parser, flags = options.get_generation_parser(), ("--path", "x", "--tokenizer", "moses")
    found = options.parse_args_and_arch(parser, [str(toy_data_bin), *flags])
    assert (found.source_lang, found.target_lang) == ("src", "tgt")
