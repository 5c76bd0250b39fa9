"""Captions made with a control at every step, and what they cost in scores."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gazing import Pointer, captioner_of, noise_data
from torch import Tensor

import show_attend_tell.vision.encoder as encoder_module
from show_attend_tell.analysis.ablation.captions import CONTROLS_ALL_ALONG, caption_photos, scores_of_controls
from show_attend_tell.analysis.ablation.controls import Uniform
from show_attend_tell.analysis.ablation.teacher_forcing import Looking
from show_attend_tell.search import beam_search
from show_attend_tell.vision.sources import LivePhotos


def test_each_control_makes_captions_and_is_scored_against_the_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pycocoevalcap")
    monkeypatch.setenv("PATH", "")  # no Java, no seconds of METEOR
    monkeypatch.setattr(encoder_module, "native_bf16", lambda device: False)
    captioner, data = captioner_of(Pointer(coupled=True)), noise_data(tmp_path)
    examples, annotations = list(data.examples), LivePhotos(data.examples, captioner.backend.encoder)
    generation = captioner.checkpoint.generation
    lookings = [Looking("mean", number) for number in range(24)]
    with torch.no_grad():
        own = caption_photos(captioner, annotations, examples, lookings, generation, show=False)
        alphas = [found.alpha for found in own if found.alpha is not None]
        even = caption_photos(
            captioner, annotations, examples, lookings, generation, control="uniform", alphas=alphas, show=False
        )
        for index in (0, 23):
            expected = beam_search(captioner.torch_backend().decoder, annotations[[examples[index].name]], max_length=9, mode=Uniform())
            assert even[index].words == expected[0][0].words
        # the references are the model's own captions, so these score 100
        decode = captioner.checkpoint.vocabulary.decode
        examples = [
            replace(example, captions=(tuple(decode(found.words)),))
            for example, found in zip(examples, own, strict=True)
        ]
        result = scores_of_controls(captioner, annotations, examples, lookings, generation, own, show=False)
    assert result["photos"] == 24 and set(result) == {"photos", "own", *CONTROLS_ALL_ALONG}
    assert set(result["own"]) == {"cider", "bleu_4", "bleu_4_no_brevity"}  # METEOR takes Java
    assert result["own"]["bleu_4"]["score"] == pytest.approx(100, abs=1e-4)
    assert result["own"]["cider"] | {"score": 0} == {"score": 0, "difference": 0, "low": 0, "high": 0}
    for name in ("uniform", "static", "other_word", "random"):
        one = result[name]["cider"]
        assert one["high"] < 0 and one["difference"] == pytest.approx(one["score"] - result["own"]["cider"]["score"])
    # this decoder's α depends on the step alone, so another photo's is its own
    assert result["other_photo"]["cider"]["difference"] == pytest.approx(0)


def test_a_search_by_a_given_look_is_not_split(tmp_path: Path) -> None:
    captioner = captioner_of(Pointer(coupled=True))
    seen: list[int] = []

    class Noting(Uniform):
        def __call__(self, alpha: Tensor, annotations: Tensor):  # type: ignore[no-untyped-def]
            seen.append(len(annotations))
            return super().__call__(alpha, annotations)

    photos = torch.rand(101, 15, 11, generator=torch.Generator().manual_seed(1))
    found = captioner.generate(photos, captioner.checkpoint.generation, seeds=[0] * 101, mode=Noting())
    assert len(found) == 101 and set(seen) == {101}
