"""What a decoder computes: its kind and its sizes, as a model's configuration has them. Nothing here needs PyTorch.

m word-embedding size · n LSTM size · A attention size · D annotation size · K vocabulary.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from show_attend_tell.errors import SatError
from show_attend_tell.settings import Count, CountOrNone, ShareBelowOne, settings

Depth = Annotated[int, Field(ge=1, le=20)]
LARGEST = 40.0  # of |2k| and |2q| in the attention, so that the product of their exponentials is finite in float32


@settings
class Config:
    """The configuration of a decoder of any kind: the kind, and the sizes that training fills in."""

    kind: ClassVar[str]  # the name under which `registry` has it
    vocabulary_size: Count = Field(
        10_000, description="K, with the end and unknown tokens; training sets it to its vocabulary's"
    )
    annotation_size: Count = Field(512, description="D; training sets it to its encoder's")

    @property
    def attention(self) -> str:
        """How the decoder attends: "soft", "hard", "uniform", or "none"."""
        return "none"

    @property
    def attends(self) -> bool:
        """Whether the decoder weighs locations differently, and its steps have α."""
        return self.attention not in ("none", "uniform")

    @property
    def title(self) -> str:
        """What a model of this configuration is, in a sentence or two, for its card."""
        return f"A captioner with a decoder of the kind {self.kind}."

    @property
    def sizes(self) -> str:
        """The sizes of its parts, for its card."""
        own = [field.name for field in fields(self)[len(fields(Config)) :]]
        sizes = {name: getattr(self, name) for name in own if type(getattr(self, name)) is int}
        return ", ".join(f"{name.replace('_', ' ')} {size}" for name, size in sizes.items())

    def weight_shapes(self) -> dict[str, tuple[int, ...]] | None:
        """The shape of each weight by its name; None where only the decoder itself knows."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file, the kind among them."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The configuration that `to_dict` wrote. Raises `InvalidValue` for an unknown entry."""
        return cls(**{name: value for name, value in values.items() if name != "kind"})


@settings
class DecoderConfig(Config):
    """What the weights of a file compute, and the dropout that they were trained with.

    Defaults are the paper's, and the authors' program's where the paper is silent. The tanh of the deep output is from
    the program; eq. 2 and the preset `paper` do not have it. Raises `SatError` for a size below one, a dropout outside
    [0, 1) and a choice that does not exist.
    """

    kind = "attention"
    attention: Literal["soft", "hard", "uniform"] = Field(
        "soft", description="uniform: a control, α is 1/L at every location and step"
    )
    embedding_size: Count = Field(512, description="m")
    hidden_size: Count = Field(512, description="n")
    attention_size: Count = Field(512, description="A")
    attention_depth: Literal[1, 2] = Field(1, description="2: one more square tanh layer on the annotations")
    initial_depth: Literal[1, 2] = Field(2, description="2: the two initial-state MLPs share one ReLU layer")
    initial_size: CountOrNone = Field(0, description="of that ReLU layer, at initial_depth 2; 0: n")
    gate: bool = Field(True, description="β")
    output_tanh: bool = Field(True, description="tanh of the deep output's sum")
    output_word: bool = Field(True, description="E·y_{t−1} feeds the deep output")
    output_context: bool = Field(True, description="ẑ_t feeds the deep output")
    output_depth: Depth = Field(
        1, description="layers of the deep output, L_o included; those before L_o are square ReLU layers"
    )
    tied_embeddings: bool = Field(False, description="L_o is E")
    annotation_norm: Literal["scale", "layer"] = Field(
        "scale", description='one number for all annotations; "layer": each by itself'
    )
    annotation_window: Count = Field(
        1, description="side of the window, in locations, whose mean replaces each annotation; 1: no window"
    )
    dropout: ShareBelowOne = Field(
        0.5, description="on the initial-state layer, on h before the deep output, on the deep output"
    )
    annotation_dropout: ShareBelowOne = Field(
        0.0, description="on whole channels, the same ones at every location of a photo"
    )

    def __post_init__(self) -> None:
        if self.annotation_window % 2 == 0:
            raise SatError(
                f"annotation_window is {self.annotation_window}: give an odd number of locations, 1 for no window"
            )

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight of an `AttentionDecoder`, by its name."""
        K, m, n = self.vocabulary_size, self.embedding_size, self.hidden_size
        D, A, first = self.annotation_size, self.attention_size, self.initial_size or n
        initial_inputs = first if self.initial_depth == 2 else D
        linear: dict[str, tuple[int, int, bool]] = {  # outputs, inputs, and whether there is a bias
            "attention.key": (A, D, True),
            "attention.query": (A, n, False),
            "initial_hidden": (n, initial_inputs, True),
            "initial_memory": (n, initial_inputs, True),
            "gates_from_word": (4 * n, m, True),
            "gates_from_hidden": (4 * n, n, False),
            "gates_from_context": (4 * n, D, False),
            "output_hidden": (m, n, True),
        }
        if self.attention_depth == 2:
            linear["attention.deepen"] = (D, D, True)
        if self.gate:
            linear["gate"] = (1, n, True)
        if self.initial_depth == 2:
            linear["initial"] = (first, D, True)
        if self.output_context:
            linear["output_context"] = (m, D, False)
        if not self.tied_embeddings:
            linear["output_words"] = (K, m, False)
        linear |= {f"output_layers.{number}": (m, m, True) for number in range(self.output_depth - 1)}
        weight_sizes: dict[str, tuple[int, ...]] = {
            "annotation_scale": (),
            "embedding.weight": (K + 1, m),
            "attention.energy": (A,),
            "output_bias": (K,),
        }
        for name, (outputs, inputs, bias) in linear.items():
            weight_sizes[f"{name}.weight"] = (outputs, inputs)
            if bias:
                weight_sizes[f"{name}.bias"] = (outputs,)
        return weight_sizes

    @property
    def title(self) -> str:
        return f"A {self.attention}-attention captioner after *Show, Attend and Tell* (Xu et al., ICML 2015). " + (
            "It is a control: the same decoder, with the same attention on all locations at every word."
            if self.attention == "uniform"
            else "It gives a caption for a photo and, for every word, a map of what supported it."
        )

    @property
    def sizes(self) -> str:
        windows = f" on windows of {self.annotation_window}×{self.annotation_window} locations"
        attention = f"attention of {self.attention_size}{windows if self.annotation_window > 1 else ''}"
        return f"LSTM of {self.hidden_size}, embeddings of {self.embedding_size}, {attention}"


def window_side(window: int, locations: int) -> int:
    """The locations on a side of a square grid. Raises `SatError` for a window on locations that are not one."""
    side = math.isqrt(locations)
    if window > 1 and side * side != locations:
        raise SatError(f"annotation_window is {window}, and {locations} locations are not a square grid: give 1")
    return side


def misfit(weights: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The first weight that is missing, is not expected or has another shape, in words; empty when all fit."""
    for name in (*shapes, *weights):
        own = tuple(weights[name].shape) if name in weights else None
        wanted = shapes.get(name)
        if own is None or wanted is None:
            return f"{name} {'is missing' if own is None else 'does not belong to it'}"
        if own != wanted:
            return f"{name} has shape {own}, and not {wanted}"
    return ""
