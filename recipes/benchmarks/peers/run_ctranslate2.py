"""CTranslate2, which translates with our model, exported. It does not train."""

import shutil
import subprocess
import sys
from pathlib import Path

from job import Job, Translate, run_jobs


def export(job: Job) -> Path:
    """The exported model; made where it is missing or older than the checkpoint."""
    checkpoint, folder = Path(job["model"]), Path(job["work"]) / job["quantization"]
    weights = folder / "model.bin"
    if not weights.is_file() or weights.stat().st_mtime < checkpoint.stat().st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "vaswani_plugin.cli", "export", "--to", "ctranslate2"]
        command += ["--model", str(checkpoint), "--data-bin", job["data_bin"]]
        command += ["--output", str(folder)]
        if job["quantization"] != "float32":
            command += ["--quantization", job["quantization"]]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return folder


def load(job: Job) -> Translate:
    """CTranslate2's translator."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(export(job)), device="cpu", inter_threads=1, intra_threads=job["threads"]
    )

    def translate(lines: list[str]) -> list[str]:
        sources = [line.split() for line in lines]
        results = translator.translate_batch(
            sources,
            beam_size=job["beam"],
            length_penalty=job["length_penalty"],
            max_batch_size=job["decode_tokens"],
            batch_type="tokens",
            max_decoding_length=max(map(len, sources)) + 51,
        )
        return [" ".join(result.hypotheses[0]) for result in results]

    return translate


if __name__ == "__main__":
    run_jobs(load)
