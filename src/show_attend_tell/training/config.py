"""The settings of a training, and its plan: what to train, on what, from what, and where the model goes."""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.datasets import Dataset
from show_attend_tell.errors import SatError
from show_attend_tell.model.config import Config, DecoderConfig
from show_attend_tell.settings import (
    Amount,
    AttentionModeName,
    BeamSize,
    Count,
    CountOrNone,
    Rate,
    Seed,
    Share,
    ShareBelowOne,
    Words,
    read_setting,
    settings,
)
from show_attend_tell.training import RunOptions
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.objectives.soft import SoftObjective
from show_attend_tell.vision.encoder import Encoder


@settings
class TrainingConfig:
    """Everything that a training depends on besides its data.

    Defaults are the paper's (sec. 4.3), and the authors' program's where the paper is silent.
    """

    decoder: Config = field(default_factory=DecoderConfig)
    soft: SoftObjective = field(default_factory=SoftObjective)
    hard: HardObjective = field(default_factory=HardObjective)

    minimum_count: Count = Field(1, description="words seen less often in training captions become unknown")
    vocabulary_size: Count = 10_000
    flipped: bool = Field(False, description="also show every training photo mirrored, as often as unmirrored")
    mirror_sides: bool = Field(False, description="mirror a photo even if a caption names a side, see `data.sides`")
    crops: CountOrNone = Field(
        0, description="also show this many random crops of each photo, each as often as the photo itself"
    )
    renderings: CountOrNone = Field(
        0, description="also show this many copies of each photo, in other sizes, colors and JPEG qualities"
    )
    visual_ngrams: bool = Field(False, description="fit a reranker after the training, see `rerank.ngrams`")

    epochs: Count = Field(50, description="maximum number; patience may end the training earlier")
    batch_size: Count = 64
    optimizer: Literal["adam", "rmsprop"] = "rmsprop"
    learning_rate: Rate = 1e-4
    warmup: CountOrNone = Field(0, description="batches of linear warm-up")
    schedule: Literal["constant", "cosine"] = Field("constant", description="cosine: to zero at the last epoch")
    clip: Amount = Field(0.0, description="largest norm of the gradient of all weights together; 0: no clipping")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="precision of the computation; auto: bfloat16 if the processor or the GPU has instructions for it, "
        "otherwise float32",
    )
    micro_batch_size: CountOrNone = Field(
        0, description="captions whose gradient is computed at once, to save memory; 0: the whole batch"
    )
    averaging: ShareBelowOne = Field(
        0.0, description="decay per batch of the moving average of the weights, which is saved; 0: none"
    )
    scheduled_sampling: Share = Field(0.0, description="share of the previous words that are the decoder's own")
    scheduled_sampling_end: Share | None = Field(
        None, description="the share moves linearly to this value; None: it stays"
    )
    entropy_weight_end: float | None = Field(
        None, description="hard attention's λ_e moves linearly to this value; None: it stays"
    )

    cautious: bool = Field(
        False, description="for a small set: what val cannot prove stays as it was, see `training.cautious`"
    )
    selected_by: Literal["bleu_4", "bleu_4_no_brevity", "cider", "nats", "cider_and_nats"] = Field(
        "bleu_4",
        description="how the best epoch is chosen, on val: by a score of the model's captions, which also chooses the "
        "generation config; by −log p a word of people's captions; or by CIDEr and these nats together, if val has few "
        "photos",
    )
    validation_beam_size: BeamSize = 1
    validation_attention_mode: AttentionModeName | None = Field(
        None, description="None: argmax for hard attention, mean for the others"
    )
    max_length: Words = 40
    patience: Count = Field(10, description="epochs without a better validation score before stopping")
    seed: Seed = 1

    @property
    def views(self) -> list[str]:
        """The views of the training photos (`Preprocessing`) besides the original."""
        drawn = {"crop": self.crops, "rendered": self.renderings}
        numbered = [f"{kind}-{number}" for kind, count in drawn.items() for number in range(1, count + 1)]
        return ["flipped"] * self.flipped + numbered

    def sized(self, vocabulary_size: int, annotation_size: int) -> "TrainingConfig":
        """The settings of a decoder for that many words, and for annotations of that size."""
        sizes = {"vocabulary_size": vocabulary_size, "annotation_size": annotation_size}
        return dataclasses.replace(self, decoder=dataclasses.replace(self.decoder, **sizes))

    def objective(self) -> SoftObjective | HardObjective:
        """The hard objective for hard attention, and the soft one for every other decoder: a new one."""
        return dataclasses.replace(self.hard if self.decoder.attention == "hard" else self.soft)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, flat: "decoder.hidden_size" and the like."""
        return flat({**dataclasses.asdict(self), "decoder": self.decoder.to_dict()})


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, their keys joined by dots."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        result |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return result


# --attention, the encoder, and vocabulary_size with minimum_count set these
NOT_SET = {"decoder.kind", "decoder.attention", "decoder.annotation_size", "decoder.vocabulary_size"}


def changed(config: TrainingConfig, changes: Sequence[str]) -> TrainingConfig:
    """The settings with other values, "decoder.hidden_size=1024" and the like, all at once.

    Raises `SatError` for an unknown name, listing the names of all settings, and for a wrong value.
    """
    groups: dict[str, dict[str, Any]] = defaultdict(dict)
    for change in changes:
        name, equals, text = change.partition("=")
        known = [setting for setting in config.to_dict() if setting not in NOT_SET]
        if name == "decoder.attention":
            raise SatError(f"--set {change}: give --attention instead")
        if not equals or name not in known:
            raise SatError(f"--set {change}: give NAME=VALUE with one of these names: {', '.join(known)}")
        group, _, entry = name.rpartition(".")
        try:
            groups[group][entry] = read_setting(type(getattr(config, group) if group else config), entry, text)
        except SatError as error:
            raise SatError(f"--set {change}: {error}") from None
    plain = groups.pop("", {})
    changed_groups = {group: dataclasses.replace(getattr(config, group), **values) for group, values in groups.items()}
    return dataclasses.replace(config, **plain, **changed_groups)


@dataclass(frozen=True)
class Start:
    """What a training starts from."""

    encoder: Encoder  # what makes annotations of photos, as `load_encoder` gives it
    checkpoint: Checkpoint | None = None  # of the model to start from; None: random weights
    name: str | None = None  # of this model
    lines: tuple[str, ...] = ()  # which start was chosen, and why


@dataclass(frozen=True, kw_only=True)
class TrainingPlan(RunOptions):
    """What to train, on what, from what, and where the model goes.

    Raises `SatError` for a first block of the encoder without a rate.
    """

    dataset: Dataset  # photos with captions and splits, as `read_dataset` or `join` give them
    start: Start  # the encoder, and the model whose weights and words are taken over, if there is one
    config: TrainingConfig  # every setting of the training, such as a preset's
    output: Path  # folder of the checkpoint; the training's own state is in its subfolder "training"
    given: Collection[str] | None = None  # names of settings that ``fit_to_data`` leaves; None: it may change all
    fit_to_data: bool = False  # the other settings are fitted to custom data, see `presets.custom`
    cache: Path | None = None  # folder of the encoded photos; None: the user's own cache
    device: str = "auto"  # auto, cpu, cuda, cuda:1 or mps
    notes: dict[str, Any] = field(default_factory=dict)  # go on the model card

    def __post_init__(self) -> None:
        if self.unfreeze_from is not None and self.encoder_lr is None:
            raise SatError(f"--unfreeze-from {self.unfreeze_from} needs a learning rate: add --encoder-lr 1e-5")

    @property
    def state(self) -> Path:
        """The file of the training's own state."""
        return self.output / "training" / "state.safetensors"
