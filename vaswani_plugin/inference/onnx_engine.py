"""A model that `vaswani export --to onnx` wrote, run by onnxruntime under our own search.

The folder holds three graphs, as Optimum names them: the encoder, the decoder for the first token,
and the decoder that continues with cached keys and values.

Axes: B sentences, W beams, R = B W rows, S, T source, target lengths, D width, H heads, V types.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError, optional
from vaswani_plugin.files.lines import read_json
from vaswani_plugin.inference.attention import RawAttention
from vaswani_plugin.inference.runner import Tokens
from vaswani_plugin.inference.search_engine import SearchEngine
from vaswani_plugin.search.models import EncoderDecoderModel, Start, all_rows, chosen_rows
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.settings import CONFIG, ONNX_ENCODER, OURS

ONNX_PACKAGES = "onnx onnxruntime"
ENCODER = ONNX_ENCODER
DECODER = "decoder_model.onnx"
DECODER_WITH_PAST = "decoder_with_past_model.onnx"
POSITIONS = ("max_source_positions", "max_target_positions")


def past_names(kind: str, layers: int) -> list[str]:
    """Optimum's names of the keys and values: of each layer the target's, then the source's.

    The kind is "past_key_values" for inputs, "present" for outputs.
    """
    sides = [f"{kind}.{n}.{side}" for n in range(layers) for side in ("decoder", "encoder")]
    return [f"{side}.{part}" for side in sides for part in ("key", "value")]


def cross_attention_name(layers: int) -> str:
    """The name of the last layer's attention to the source, as in transformers' outputs."""
    return f"cross_attentions.{layers - 1}"


class Graph:
    """One ONNX file, with the names of its inputs and outputs."""

    def __init__(self, path: Path, threads: int) -> None:
        onnxruntime = optional("onnxruntime", ONNX_PACKAGES)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # errors are raised
        self.session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [entry.name for entry in self.session.get_inputs()]
        self.outputs = [entry.name for entry in self.session.get_outputs()]

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Compute all outputs, by name; each is a new tensor."""
        arrays = {name: tensor.contiguous().numpy() for name, tensor in inputs.items()}
        tensors = map(torch.from_numpy, self.session.run(None, arrays))
        return dict(zip(self.outputs, tensors, strict=True))


class OnnxTransformer(EncoderDecoderModel):
    """The three graphs of a folder."""

    decoder: None = None

    def __init__(self, folder: Path, padding_idx: int, threads: int) -> None:
        longest = read_json(folder / CONFIG, "export the model again")[OURS]
        self.longest_source, self.longest_target = (longest[name] for name in POSITIONS)
        self.padding_idx = padding_idx
        self.encoder_graph = Graph(folder / ENCODER, threads)
        self.first = Graph(folder / DECODER, threads)
        self.next = Graph(folder / DECODER_WITH_PAST, threads)
        layers = sum(name.endswith(".decoder.key") for name in self.next.inputs)
        self.past = past_names("past_key_values", layers)
        self.weights_name = cross_attention_name(layers)

    def encode(self, tokens: Tensor) -> dict[str, Tensor]:
        """Sources (B, S), padded on either side -> the decoder's inputs of their side."""
        mask = tokens.ne(self.padding_idx).long()
        encoded = self.encoder_graph.run({"input_ids": tokens, "attention_mask": mask})
        return {
            "encoder_hidden_states": encoded["last_hidden_state"],
            "encoder_attention_mask": mask,
        }

    def prepare(self) -> tuple[Start, bool]:
        return lambda sources, beam, _: OnnxBeams(self, self.encode(sources.tokens)), False


class OnnxBeams:
    """The hypotheses of one batch; see `search.models.Beams`."""

    def __init__(self, model: OnnxTransformer, encoded: dict[str, Tensor]) -> None:
        self.model, self.encoded = model, encoded
        self.source = {"encoder_attention_mask": encoded["encoder_attention_mask"]}
        self.past: dict[str, Tensor] = {}  # of the target
        self.beams = 1

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """See `Beams`."""
        model, (sentences, beams) = self.model, tokens.shape
        graph, inputs = model.first, self.encoded
        if parents is not None:
            self._reorder(parents, beams)
            graph, inputs = model.next, self.source | self.past
        self.beams = beams
        outputs = graph.run({"input_ids": tokens.reshape(-1, 1), **inputs})
        for name in model.past:
            if (output := name.replace("past_key_values", "present")) in outputs:
                (self.past if ".decoder." in name else self.source)[name] = outputs[output]
        self.next_logits = outputs["logits"].view(sentences, beams, -1)
        attention = outputs[model.weights_name].mean(dim=1)  # (R, 1, S)
        return attention.view(sentences, beams, -1)

    def _reorder(self, parents: Tensor, beams: int) -> None:
        """Take the rows of `parents` (B, W); all rows of a sentence have the same source."""
        rows = chosen_rows(parents, self.beams)
        self.past = _select(self.past, rows)
        if beams != self.beams:
            self.source = _select(self.source, rows)

    def logits(self, sentences: slice) -> Tensor:
        """Return the logits of the next token, (b, W, V): onnxruntime made them for this step."""
        return self.next_logits[sentences]

    def keep(self, sentences: Tensor) -> None:
        rows = all_rows(sentences, self.beams)
        self.past, self.source = _select(self.past, rows), _select(self.source, rows)


def _select(tensors: dict[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    return {name: tensor.index_select(0, rows) for name, tensor in tensors.items()}


class OnnxEngine(SearchEngine):
    """Our `Engine` over onnxruntime: all options of our search, on the CPU."""

    def __init__(self, folder: Path, names: Mapping[str, str], threads: int | None = None) -> None:
        """Load a bundle's graphs and its dictionaries, whose names are by side."""
        source, target = (Dictionary.load(folder / names[side]) for side in ("source", "target"))
        threads = threads or torch.get_num_threads()
        model = OnnxTransformer(folder, source.pad(), threads)
        super().__init__([model], source, target, torch.device("cpu"), threads)

    @staticmethod
    def log_probabilities(
        model: OnnxTransformer, sources: Tensor, rows: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor:
        inputs = {name: tensor[rows] for name, tensor in model.encode(sources).items()}
        logits = model.first.run({"input_ids": previous, **inputs})["logits"]
        return logits.log_softmax(-1).gather(-1, target[..., None])[..., 0]

    def attention(self, source: Tokens, target: Tokens) -> RawAttention:
        """See `Engine`: there are none to show."""
        raise UserError("onnxruntime gives no weights of heads: use the bundle it was made of")
