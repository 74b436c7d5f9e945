"""Ours: trained by fairseq-train with the plugin (run_fairseq.py), decoding by `Translator`."""

from job import Job, Translate, run_jobs
from run_fairseq import train


def load(job: Job) -> Translate:
    """The checkpoint in our own search, without fairseq."""
    from vaswani_plugin import Translator

    translator = Translator.from_checkpoint(job["model"], job["data_bin"], threads=job["threads"])
    options = {"beam": job["beam"], "length_penalty": job["length_penalty"]}

    def translate(lines: list[str]) -> list[str]:
        found = translator.translate(lines, batch_tokens=job["decode_tokens"], **options)
        return [" ".join(translation.tokens) for translation in found]

    return translate


if __name__ == "__main__":
    run_jobs(load, train)
