"""Decoders that use their attention, and one that only reports it, tell the measure apart."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import ablation as program
import numpy as np
import pytest
import torch
from attention.controls import CONTROLS
from builders import COLUMNS, ROWS, D, small_checkpoint, small_encoder
from measure import Interval, Report, WordClass
from PIL import Image
from torch import Tensor

from show_attend_tell.backends.torch import TorchBackend
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import DataReport, Dataset, Example
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, State, Step
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import ATTENTION_MODES

L = ROWS * COLUMNS


WORDS = "dog dogs man boy red blue green runs running sits jumps a the in on zyx abc".split()
LENGTH = 5  # words of each caption of a `Pointer`


class Named(NamedTuple):
    """What `Pointer` names a word by."""

    context: Tensor  # (..., D)
    time: Tensor  # (..., 1)


class Pointer(Decoder):
    """Attends to two neighboring locations, others at each step, and names what is there, or only reports this α.

    A decoder that is not coupled has the same α, but names the mean of all locations. α depends on the step alone.
    """

    attends = True

    def __init__(self, *, coupled: bool) -> None:
        super().__init__()
        self.coupled = coupled
        self.vocabulary_size = len(WORDS) + 2
        generator = torch.Generator().manual_seed(11)
        self.names = torch.randn(LENGTH + 9, D, self.vocabulary_size, generator=generator) * (8 if coupled else 24)

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        return State((annotations.float(),), (torch.zeros(len(annotations), paths, 1),))

    def embed(self, words: Tensor) -> Tensor:
        return words[..., None].float()

    def step(self, embedded: Tensor, state: State, mode: Any = MEAN_ATTENTION) -> Step:
        (annotations,), (time,) = state
        alpha = torch.full((*time.shape[:2], L), 0.1 / (L - 2))
        first = (7 * time.long() + 1) % L
        alpha.scatter_(-1, torch.cat([first, (first + 1) % L], dim=-1), 0.45)
        context = mode(alpha, annotations).context
        if not self.coupled:
            context = annotations.mean(1, keepdim=True).expand_as(context)
        return Step(Named(context, time), State((annotations,), (time + 1,)), alpha)

    def read_out(self, output: Named) -> Tensor:
        context, time = output
        logits = (context[..., None, :] @ self.names[time[..., 0].long()]).squeeze(-2)  # another question at each step
        ending = torch.where(time[..., 0] < LENGTH, -1e4, 1e4)
        return torch.cat([ending[..., None], torch.full_like(time, -1e4), logits[..., 2:]], dim=-1)


def noise_data(folder: Path, number: int = 24) -> Dataset:
    """Photos of noise, one val split."""
    examples = []
    for index in range(number):
        noise = np.random.default_rng(index).integers(0, 256, (10, 6, 3)).astype(np.uint8)
        path = folder / f"photo{index:02}.png"
        Image.fromarray(noise).resize((30, 30), Image.Resampling.NEAREST).save(path)
        examples.append(Example(path.name, path, "val", (("a", "dog", "runs"),), ("a dog runs",)))
    return Dataset(
        name="noise", folder=folder, examples=tuple(examples), report=DataReport({"val": number}, {"val": number})
    )


def pointing_captioner(decoder: Decoder) -> Captioner:
    """A captioner on the small encoder that decodes greedily, and may say a word twice."""
    encoder = small_encoder()
    generation = GenerationConfig(beam_size=1, max_length=9, allow_repetitions=True)
    checkpoint = replace(small_checkpoint(encoder), vocabulary=Vocabulary(WORDS), generation=generation)
    return Captioner(checkpoint, TorchBackend(decoder, encoder, device=torch.device("cpu")), name="pointer")


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return noise_data(tmp_path)


def ablation(decoder: Decoder, data: Dataset, **options: Any) -> Report:
    """Without captions made by the controls."""
    given = {"captioned": 0, "encoded": 24, "cache": data.folder / "cache", "show": False, **options}
    return program.ablation(pointing_captioner(decoder), data, "val", **given)


def figures(found: dict[str, WordClass]) -> dict[str, Interval]:
    return {name: figure for name, figure in found["all"].figures.items() if figure is not None}


@pytest.mark.parametrize("mode", ATTENTION_MODES)
def test_what_a_model_truly_attends_to_matters_more_than_any_control(mode, data):
    result = ablation(Pointer(coupled=True), data, attention_mode=mode)
    assert result["photos"] == result["captions_forced"] == 24 and result["words"] == 24 * LENGTH
    costs = figures(result["at_word"])
    for name in ("uniform", "static", "other_word", "random"):
        assert costs[name].low > (0.2 if mode == "mean" else 0), name
    # α depends on the step alone: another photo's is the same, and only its annotations are others
    assert costs["other_view"].low > 1
    if mode != "sample":
        assert costs["other_photo"].mean == pytest.approx(0, abs=1e-4)

    assert result["hidden"] == 2 and result["locations"] == L
    assert result["captions_by_way"] == {"annotations": 24, "gray": 24}
    for way in ("annotations", "gray"):
        falls = figures(result["occlusion"][way])
        assert falls["ratio_random"].low > 1.5 and falls["ratio_patch"].low > 1.5, way
        assert falls["most"].mean > 4 * abs(falls["least"].mean), way
        assert falls["most"].mean > 2 * falls["other_word"].mean, way
        assert falls["most"].mean == pytest.approx(falls["other_photo"].mean, abs=1e-4), way


def test_what_a_model_only_reports_matters_no_more_than_the_controls(data):
    result = ablation(Pointer(coupled=False), data)
    for name in CONTROLS:
        cost = figures(result["at_word"])[name].mean
        assert cost > 1 if name == "other_view" else cost == pytest.approx(0, abs=1e-4), name
    for way in ("annotations", "gray"):
        falls = figures(result["occlusion"][way])
        assert falls["random"].low > 0  # locations do matter
        assert falls["ratio_random"].low < 1 < falls["ratio_random"].high, way
        assert 0.5 < falls["ratio_random"].mean < 2
