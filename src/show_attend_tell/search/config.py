"""`GenerationConfig`: how captions are made of a photo, in one value."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from show_attend_tell.errors import InvalidValue
from show_attend_tell.search.registry import FILTERS
from show_attend_tell.settings import (
    Amount,
    AttentionModeName,
    BeamSize,
    Count,
    CountOrNone,
    Exponent,
    Share,
    Words,
    settings,
)

PER_CALL = {"min_confidence", "num_captions", "seed"}  # a model stores all others
# settings of words drawn at random, which were removed, with their defaults
REMOVED = {"do_sample": False, "temperature": 0.3, "top_k": 0, "top_p": 1.0}


@settings
class GenerationConfig:
    """How captions are made, by beam search.

    It returns its captions by the score (log p + s) / C^γ + ω r. s is what filters add to words (see
    ``repetition_cost`` and ``class_weight``), C the number of words with the end token, γ the ``length_penalty``, ω the
    ``rerank_weight`` and r the rerank score. The names are those of `transformers` where they mean the same.
    Raises `InvalidValue` for a value out of range.
    """

    beam_size: BeamSize = Field(5, description="captions that the search keeps at each step; 1 is greedy search")
    attention_mode: AttentionModeName = Field(
        "mean", description="what the decoder reads: α's weighted mean, argmax, or a sample"
    )
    length_penalty: Exponent = Field(0.0, description="exponent γ of the number of words in the score; 0 is none")
    rerank_weight: Amount = Field(0.0, description="weight ω of the reranker in the score; 0 is no reranker")
    rare_word_exponent: Exponent = Field(
        0.0, description="how much more the reranker counts rare words than common ones"
    )
    min_confidence: Share = Field(0.0, description="minimum confidence of the caption's nouns; 0: any")
    max_length: Words = Field(40, description="maximum number of words, end token included")
    allow_repetitions: bool = Field(
        False, description="whether a caption may have the same word twice in a row, or the same three words twice"
    )
    repetition_cost: Amount = Field(0.0, description="cost of each further use of the same noun or color, in nats")
    class_weight: Amount = Field(
        0.0, description="weight of the words for classes that the encoder's classifier sees; 0: none"
    )
    filters: tuple[tuple[str, float], ...] = Field(
        (), description="registered filters that have no setting here, each with its value"
    )
    num_captions: Count | None = Field(
        None, description="number of captions of a photo, diverse ones of the beam; none: one"
    )
    seed: CountOrNone = Field(0, description="random seed of sampled locations")

    def __post_init__(self) -> None:
        if (self.num_captions or 1) > self.beam_size:
            raise InvalidValue(
                f"num_captions is {self.num_captions}, and a search with beam_size {self.beam_size} finds "
                f"{self.beam_size}: give a larger beam_size"
            )

    def merge(self, **overrides: Any) -> "GenerationConfig":
        """This configuration with other values; an override of None changes nothing.

        The name of a registered filter is a setting too. Raises `InvalidValue` for a name that is no setting.
        """
        changed = {name: value for name, value in overrides.items() if value is not None}
        return GenerationConfig(**with_filters({**dataclasses.asdict(self), **changed}))

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint stores: all settings but those of a single call."""
        return {name: value for name, value in self.values().items() if name not in PER_CALL}

    def values(self) -> dict[str, Any]:
        """All settings by name, those of registered filters too."""
        fields = dataclasses.asdict(self)
        return fields | dict(fields.pop("filters"))

    def summary(self) -> str:
        """Beam size, length penalty, reranker and filters in words."""
        weight = f", rerank weight {self.rerank_weight:g}" if self.rerank_weight else ""
        weight += f", rare-word exponent {self.rare_word_exponent:g}" if weight and self.rare_word_exponent else ""
        weight += f", {self.repetition_cost:g} nats for a second use" if self.repetition_cost else ""
        weight += f", class weight {self.class_weight:g}" if self.class_weight else ""
        weight += "".join(f", {name} {value:g}" for name, value in self.filters)
        weight += f", nouns of a confidence of {self.min_confidence:g} or more" if self.min_confidence else ""
        return f"beam size {self.beam_size}, length penalty {self.length_penalty:g}{weight}"


def with_filters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, in which those of registered filters without a field of their own stand in ``filters``.

    A filter's number may be a text. Raises `InvalidValue` for a setting that was removed, unless it has the default, as
    in older files.
    """
    for name, default in REMOVED.items():
        if values.get(name, default) != default:
            raise InvalidValue(f"{name}: words are not drawn at random any more", remedy="leave it out")
    fields = vars(GenerationConfig())
    own = {name: value for name, value in values.items() if name not in fields and name in FILTERS}
    others = {name: value for name, value in values.items() if name not in own and name not in REMOVED}
    filters = others.get("filters", ())
    try:
        numbers = [(name, float(value)) for name, value in (dict(filters) | own).items()]
    except (TypeError, ValueError):  # which the class refuses
        return others | {"filters": own or filters}
    return others | {"filters": tuple(sorted(pair for pair in numbers if pair[1]))}
