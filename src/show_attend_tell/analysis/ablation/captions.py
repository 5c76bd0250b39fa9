"""What replacing α costs the captions that a model makes by itself: their scores with each control all along.

B photos · T words of a caption · L places.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from show_attend_tell.analysis.ablation.controls import CONTROLS, mode_for_search
from show_attend_tell.analysis.ablation.teacher_forcing import Looking
from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Example
from show_attend_tell.generation import rescored
from show_attend_tell.metrics.comparison import differences
from show_attend_tell.metrics.scores import Statistics, score
from show_attend_tell.progress import Progress
from show_attend_tell.search.beam import beam_search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import Hypothesis, rank
from show_attend_tell.vision.sources import Annotations

METRICS = ("cider", "meteor", "bleu_4", "bleu_4_no_brevity")
CONTROLS_ALL_ALONG = tuple(
    control for control in CONTROLS if control != "other_view"
)  # that is another photo's caption


def caption_photos(
    captioner: Captioner,
    annotations: Annotations,
    examples: Sequence[Example],
    lookings: Sequence[Looking],
    generation: GenerationConfig,
    *,
    control: str | None = None,
    alphas: Sequence[Tensor] = (),
    show: bool = True,
) -> list[Hypothesis]:
    """The best caption of each photo, by the decoding's look, or by a control from all photos' own α (T, L).

    The other photo of a control is the next one, and the last one's is the first.
    """
    backend, together, found = captioner.torch_backend(), 32, []
    title = "captions" if control is None else f"captions by {CONTROLS[control]}"
    with Progress(total=len(examples), desc=title, unit="photo", disable=not show) as bar:
        for start in range(0, len(examples), together):
            rows = range(start, min(start + together, len(examples)))
            attention_mode = None
            if control is not None:
                attention_mode = mode_for_search(
                    control,
                    [alphas[row] for row in rows],
                    [alphas[(row + 1) % len(alphas)] for row in rows],
                    [lookings[row] for row in rows],
                    paths=generation.beam_size,
                    steps=generation.max_length,
                )
            photos = backend.features(annotations[[examples[row].name for row in rows]])
            session = backend.session(
                photos, generation, seeds=[lookings[row].seed for row in rows], mode=attention_mode
            )
            searched = beam_search(session, generation)
            if captioner.reranker is not None:
                searched = rescored(backend, photos, searched, generation, captioner.reranker)
            found += [rank(each, generation.length_penalty, generation.rerank_weight)[0] for each in searched]
            bar.update(len(rows))
    return found


def scores_of_controls(
    captioner: Captioner,
    annotations: Annotations,
    examples: Sequence[Example],
    lookings: Sequence[Looking],
    generation: GenerationConfig,
    own: Sequence[Hypothesis],
    *,
    seed: int = 0,
    show: bool = True,
) -> dict[str, Any]:
    """The scores of captions that a model makes with each control at every step, and their differences to its own.

    ``own`` are its captions of the same photos by its own α. Returns ``photos`` (how many), and by ``own`` and control
    each of `METRICS`, ×100, with the ``difference`` to the own captions' and its 95 % interval, by the paired bootstrap
    over photos. Metrics that cannot be computed here are left out.
    """
    alphas = [_maps(hypothesis) for hypothesis in own]
    captions = {"own": own}
    for control in CONTROLS_ALL_ALONG:
        captions[control] = caption_photos(
            captioner, annotations, examples, lookings, generation, control=control, alphas=alphas, show=show
        )
    tokenizer = captioner.checkpoint.vocabulary.tokenizer
    references = {example.name: [tokenizer.text(words) for words in example.captions] for example in examples}
    statistics: dict[str, Statistics] = {}
    for name, hypotheses in captions.items():
        texts = _texts(captioner, examples, hypotheses)
        statistics[name] = score(texts, references, tokens=tokenizer.tokens).statistics
    result: dict[str, Any] = {"photos": len(examples)}
    for name in captions:
        compared = differences([statistics["own"]], [statistics[name]], seed=seed)
        result[name] = {
            one.metric: {"score": one.system, "difference": one.difference, "low": one.low, "high": one.high}
            for one in compared
            if one.metric in METRICS
        }
    return result


def _texts(captioner: Captioner, examples: Sequence[Example], hypotheses: Sequence[Hypothesis]) -> Mapping[str, str]:
    text = captioner.checkpoint.vocabulary.text
    return {e.name: text(found.words) for e, found in zip(examples, hypotheses, strict=True)}


def _maps(hypothesis: Hypothesis) -> Tensor:
    """α (T, L) of a caption; of one without words, even maps."""
    alpha = torch.as_tensor(hypothesis.alpha)
    assert alpha is not None  # only models with attention have controls
    return alpha if len(alpha) else torch.full((1, alpha.shape[1]), 1 / alpha.shape[1], device=alpha.device)
