"""Training that maximizes CIDEr: the decoder draws captions, and is rewarded for the good ones.

Rennie et al., "Self-critical Sequence Training for Image Captioning", CVPR 2017. There the reward of the greedy caption
is the baseline; here it is the mean of the photo's other drawn captions, which costs no search of its own.

B photos · P captions drawn of each · C words of a drawn caption, end token included, padded · L locations · K
vocabulary.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from show_attend_tell.backends.torch import paths_batch_size
from show_attend_tell.data.datasets import shown
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.metrics.cider import CiderD
from show_attend_tell.model.attention import AttentionMode, GivenLocations, SampleAttention
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, DecoderOutput, drawn_words, initial_state
from show_attend_tell.model.kernels import WordScores
from show_attend_tell.model.precision import promote
from show_attend_tell.search.hypotheses import NEVER
from show_attend_tell.settings import Amount, Count, settings
from show_attend_tell.training.losses import Loss, entropy
from show_attend_tell.training.ranks import part_of

STAYING = 0.8  # finished photos are removed from the batch when at most this share of it is unfinished


@settings
class SelfCritical:
    """The gradient, for the captions y drawn for each photo and, with hard attention, the locations s drawn with them:

        mean_y [ (r(y) − b(y)) Σ_t (∂log p(y_t) + λ_r ∂log p(s_t)) ] + λ_y ∂(the loss of true captions)

    r(y) is CIDEr-D against the photo's training captions, whose n-grams in all training captions give the document
    frequencies. The end token counts as a word in both; otherwise captions become truncated, since a word that is left
    out costs nothing. b(y) is the mean reward of the photo's other drawn captions.

    The loss of true captions is that of the soft or hard objective, with its own settings, on as many captions as the
    batch has photos. They are of one length, drawn at random. Raises `SatError` for a number out of its range.
    """

    samples: Annotated[int, Field(ge=2)] = 5  # captions drawn for each photo
    longest: Count = 24  # words of a drawn caption, end token included; a longer one is truncated
    locations_weight: Amount = 1.0  # λ_r
    likelihood_weight: Amount = 0.0  # λ_y


class Drawn(NamedTuple):
    """Captions that a decoder drew."""

    words: Tensor  # (B, P, C), end tokens behind the caption's own
    lengths: Tensor  # (B, P), words with the end token, if there is one
    locations: Tensor | None  # (B, P, C), of hard attention


class CaptionRewards:
    """What self-critical training needs of its data: photos, their captions, and the reward of other captions."""

    def __init__(
        self, chosen: SelfCritical, captions: Sequence[tuple[str, list[int]]], weights: Sequence[float] = ()
    ) -> None:
        """``captions`` and ``weights`` are those of `TrainingData`: photo name and word ids, end token included."""
        self.settings = chosen
        by_name = {name: weight for (name, _), weight in zip(captions, weights, strict=False)}
        by_photo: dict[str, list[list[int]]] = defaultdict(list)
        self.by_length: dict[int, list[int]] = defaultdict(list)  # numbers of captions
        for number, (name, words) in enumerate(captions):
            by_photo[name].append(words)
            self.by_length[len(words)].append(number)
        self.names = list(by_photo)
        self.weights = [by_name[name] for name in self.names] if by_name else []
        self.numbers = [len(words) for _, words in captions]
        self.references = list(by_photo.values())
        self.cider = CiderD(self.references)

    def batches(self, size: int, seed: int) -> list[list[int]]:
        """One epoch's mini-batches of photos, by their numbers in ``names``: every photo once, or by its weight."""
        chance = random.Random(seed)
        order = shown(self.weights, chance) if self.weights else list(range(len(self.names)))
        chance.shuffle(order)
        return [order[start : start + size] for start in range(0, len(order), size)]

    def true_captions(self, count: int, generator: torch.Generator) -> list[int]:
        """The numbers of that many different training captions of one length, or of all that there are.

        A length is as likely as it is frequent.
        """
        drawn = int(torch.randint(len(self.numbers), (), generator=generator))
        alike = self.by_length[self.numbers[drawn]]
        return [alike[row] for row in torch.randperm(len(alike), generator=generator)[:count].tolist()]

    def rewards(self, drawn: Drawn, photos: Sequence[int]) -> Tensor:
        """CIDEr-D (B, P), 0 to 10, of captions drawn for photos; the end token counts as a word."""
        rewards = []
        for photo, captions, lengths in zip(photos, drawn.words.tolist(), drawn.lengths.tolist(), strict=True):
            said = [words[:length] for words, length in zip(captions, lengths, strict=True)]
            rewards.append(self.cider(said, self.references[photo]))
        return torch.tensor(rewards, device=drawn.words.device)

    def loss(
        self,
        decoder: Decoder,
        forward: Callable[..., DecoderOutput],
        annotations: Tensor,
        photos: Sequence[int],
        *,
        generator: torch.Generator,
        word_scores: WordScores,
    ) -> Loss:
        """The loss of photos, whose gradient is minus that of `SelfCritical`, but for true captions.

        ``photos`` are those of the whole mini-batch; ``annotations`` (B, L, D), and the loss, are of this rank's part
        of it. The captions are drawn without dropout; ``forward``, which is `teacher_forcing` or a compiled copy, then
        computes their probabilities with dropout. ``word_scores`` is `kernels.word_scores`, plain or compiled.
        """
        chosen = self.settings
        drawn = draw(
            decoder,
            annotations,
            samples=chosen.samples,
            longest=chosen.longest,
            generator=generator,
            shared_by=len(photos),
        )
        rewards = self.rewards(drawn, photos[part_of(len(photos)).rows])
        advantage = rewards - (rewards.sum(1, keepdim=True) - rewards) / (chosen.samples - 1)
        ended = drawn.words.gather(-1, drawn.lengths[..., None] - 1) == Vocabulary.END
        watch = {
            "drawn_cider": 100 * rewards.mean(),
            "drawn_words": drawn.lengths.float().mean() - ended.float().mean(),
            "drawn_ended": ended.float().mean(),
        }
        total, uncertainty = torch.zeros((), device=annotations.device), []
        for rows in alike(drawn.lengths, paths_batch_size(chosen.samples, annotations.device)):
            part = at_rows(drawn, rows)
            mode: AttentionMode = MEAN_ATTENTION if part.locations is None else GivenLocations(part.locations)
            output = forward(decoder, annotations[rows], part.words, paths=chosen.samples, mode=mode)
            there = ~behind(part)
            credit = log_probabilities(output.logits, part.words, word_scores)
            if output.alpha is not None:
                uncertainty.append(entropy(output.alpha.detach())[there])
                if part.locations is not None:
                    locations = output.alpha.gather(-1, part.locations[..., None]).squeeze(-1)
                    credit = credit + chosen.locations_weight * locations.clamp_min(1e-12).log()
            total = total - (advantage[rows, :, None] * credit * there).sum()
        if uncertainty:
            watch["drawn_entropy"] = torch.cat(uncertainty).mean()
        return Loss(total / rewards.numel(), watch)


def log_probabilities(logits: Tensor, words: Tensor, word_scores: WordScores) -> Tensor:
    """log p (B, P, C) of words (B, P, C) among those that are drawn: no unknown word, and no end token at first."""
    logits = logits.index_fill(-1, torch.tensor([Vocabulary.UNKNOWN], device=logits.device), NEVER)
    logits[:, :, 0, Vocabulary.END] = NEVER
    picked, _ = word_scores(logits.flatten(0, 2), words.flatten())
    return picked.view(words.shape)


@torch.no_grad()
def draw(
    decoder: Decoder,
    annotations: Tensor,
    *,
    samples: int,
    longest: int,
    generator: torch.Generator,
    shared_by: int | None = None,
) -> Drawn:
    """Captions that a decoder draws word by word, of photos with annotations (B, L, D).

    With ``shared_by``, the photos are this rank's part of a mini-batch of that many photos.

    The unknown word is never drawn, nor the end token first. A hard decoder draws its locations too. As many photos run
    together as is fastest. The decoder's dropout is off meanwhile.
    """
    batch = shared_by or len(annotations)
    mine = slice(None) if shared_by is None else part_of(shared_by).rows
    of_words = torch.rand(longest, batch, samples, generator=generator)[:, mine].to(annotations.device)
    of_locations = None
    if decoder.config.attention == "hard":
        of_locations = torch.rand(batch, samples, longest, generator=generator)[mine]
    training = decoder.training
    decoder.eval()
    try:
        size = paths_batch_size(samples, annotations.device)
        parts = []
        for start in range(0, len(annotations), size):
            rows = slice(start, start + size)
            own_locations = None if of_locations is None else of_locations[rows]
            parts.append(_draw(decoder, annotations[rows], of_words[:, rows], own_locations))
    finally:
        decoder.train(training)
    locations = [part.locations for part in parts if part.locations is not None]
    together = Drawn(
        torch.cat([part.words for part in parts]),
        torch.cat([part.lengths for part in parts]),
        torch.cat(locations) if locations else None,
    )
    return at_rows(together, slice(None))


def _draw(decoder: Decoder, annotations: Tensor, uniforms: Tensor, of_locations: Tensor | None) -> Drawn:
    """`draw`, all photos together, by uniform numbers for words (C, B, P) and locations (B, P, C).

    Photos whose captions have all ended are removed from the batch.
    """
    (longest, batch, samples), device = uniforms.shape, annotations.device
    sampled = None if of_locations is None else SampleAttention(of_locations)
    state = initial_state(decoder, annotations, paths=samples)
    photos = torch.arange(batch, device=device)  # the unfinished ones
    words = torch.full((batch, samples), decoder.vocabulary_size, device=device)
    finished = torch.zeros_like(words, dtype=torch.bool)
    drawn = torch.full((batch, samples, longest), Vocabulary.END, device=device)
    locations = None if sampled is None else torch.zeros_like(drawn)
    for time in range(longest):
        step = decoder.step(decoder.embed(words), state, sampled or MEAN_ATTENTION)
        state = step.state
        logits = promote(decoder.read_out(step.output))
        logits[..., Vocabulary.UNKNOWN] = NEVER
        if time == 0:
            logits[..., Vocabulary.END] = NEVER
        words = drawn_words(torch.softmax(logits, dim=-1), uniforms[time, photos])
        words = words.masked_fill(finished, Vocabulary.END)
        drawn[photos, :, time] = words
        if locations is not None and step.locations is not None:
            locations[photos, :, time] = step.locations
        finished = finished | (words == Vocabulary.END)
        stay = ~finished.all(1)
        left = int(stay.sum())
        if left == 0:
            break
        if left <= STAYING * len(photos):
            photos, words, finished = photos[stay], words[stay], finished[stay]
            state = state.of_photos(stay)
            if sampled is not None:
                sampled.uniforms = sampled.uniforms[stay.to(sampled.uniforms.device)]
    return Drawn(drawn, ((drawn != Vocabulary.END).sum(-1) + 1).clamp_max(longest), locations)


def behind(drawn: Drawn) -> Tensor:
    """Where there is only padding, true or false, (B, P, C)."""
    return torch.arange(drawn.words.shape[-1], device=drawn.words.device) >= drawn.lengths[..., None]


def alike(lengths: Tensor, size: int) -> list[Tensor]:
    """Photos in groups of that size at most, by their longest caption; ``lengths`` (B, P) are those of captions.

    A group needs no more steps than its own longest caption has words.
    """
    order = lengths.amax(1).argsort(stable=True)
    return [order[start : start + size] for start in range(0, len(order), size)]


def at_rows(drawn: Drawn, rows: Tensor | slice) -> Drawn:
    """The captions of some of the photos, without padding that all of them have."""
    lengths = drawn.lengths[rows]
    longest = int(lengths.max())
    locations = None if drawn.locations is None else drawn.locations[rows, :, :longest]
    return Drawn(drawn.words[rows, :, :longest], lengths, locations)
