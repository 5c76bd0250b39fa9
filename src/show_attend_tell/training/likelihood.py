"""The losses of mini-batches: what is drawn at random for one, its annotations, and its loss, in pieces if need be.

Every random number of a mini-batch is drawn for all ranks, so a training computes the same however many share it; only
dropout differs.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.interface import drawn_words
from show_attend_tell.model.kernels import promote
from show_attend_tell.model.registry import build
from show_attend_tell.training import ranks
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData, batches, batches_of_photos, of_one_length
from show_attend_tell.training.objectives.losses import Loss
from show_attend_tell.training.ranks import Part


class Drawn(NamedTuple):
    """Captions of one length, and what is drawn for them."""

    names: list[str]  # of their photos, for all ranks
    captions: Tensor  # word ids (B, C), for all ranks
    part: Part  # of this rank
    attention_mode: Any  # for this rank's rows


class Piece(NamedTuple):
    """Captions whose gradient is computed at once."""

    captions: int  # in all ranks
    loss: Callable[[], Loss]  # this rank's; the mean of the ranks' losses is the loss of all of it


MiniBatch = list[Piece]


class Likelihood:
    """A decoder, and the losses of mini-batches by it."""

    def __init__(self, config: TrainingConfig, data: TrainingData, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.data = data
        self.device = device
        self.decoder = build(config.decoder).to(device)
        self.objective = config.objective()
        self.generator = torch.Generator().manual_seed(config.seed)
        self.state_before_ahead: Tensor | None = None  # the generator's state before the mini-batch that is drawn ahead
        self.text_corpus = of_one_length([("", words) for words in data.text_corpus], range(len(data.text_corpus)))
        self.epoch = 0  # epochs finished
        self.batch = 0  # mini-batches of this epoch that were taken
        self.taken = 0  # mini-batches taken in all
        self.piece = 0  # of the mini-batch that is being computed
        self.sampling = config.scheduled_sampling  # the share of the previous words that are the decoder's own now
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")

    # Mini-batches

    def batches(self) -> list[list[int]]:
        """The mini-batches of the next epoch, or of the one that is under way: numbers of captions."""
        divide = batches if self.data.encoder is None else batches_of_photos
        seed = self.config.seed * 1_000_003 + self.epoch
        return divide(self.data.captions, self.config.batch_size, seed, self.data.weights)

    def mini_batches(self) -> Iterator[MiniBatch]:
        """What is left of the epoch. A thread reads the annotations of the next one while one is computed.

        So the next one is already drawn when a state is saved: `state_before_ahead` is what the state needs. An encoder
        that is trained draws and reads in its step.
        """
        todo = self.batches()[self.batch :]
        with ThreadPoolExecutor(max_workers=1) as reader:
            if self.data.encoder is not None:
                yield from (self.mini_batch(indices, reader) for indices in todo)
                return
            ready = None
            try:
                for indices in [*todo, []]:
                    self.state_before_ahead = self.generator.get_state()
                    ahead = self.mini_batch(indices, reader)
                    if ready is not None:
                        yield ready
                    ready = ahead
            finally:
                if self.state_before_ahead is not None:  # what was drawn ahead and not taken is drawn again
                    self.generator.set_state(self.state_before_ahead)
                self.state_before_ahead = None

    def mini_batch(self, indices: Sequence[int], reader: ThreadPoolExecutor) -> MiniBatch:
        """These captions as a mini-batch, whose annotations the thread reads."""
        size = self.config.micro_batch_size or max(1, len(indices))
        pieces = []
        for start in range(0, len(indices), size):
            chunk = indices[start : start + size]
            if self.data.encoder is not None:
                loss = partial(self.loss_of_photos, chunk)
            else:
                drawn = self.draw(chunk)
                views = self.draw_views(len(chunk))
                texts = self.draw_texts(len(chunk))
                read = reader.submit(self.read, drawn.names, views, range(len(chunk))[drawn.part.rows])
                loss = partial(self.loss_of_captions, drawn, read.result, texts)
            pieces.append(Piece(len(chunk), loss))
        return pieces

    def draw(self, indices: Sequence[int]) -> Drawn:
        """What is drawn for captions of one length."""
        part = ranks.part_of(len(indices))
        captions = torch.tensor([self.data.captions[i][1] for i in indices])
        mode = self.objective.draw(len(indices), captions.shape[1], self.generator, part)
        return Drawn([self.data.captions[i][0] for i in indices], captions, part, mode)

    def draw_views(self, photos: int) -> Tensor:
        """Which view of each photo is shown: numbers (photos,)."""
        if len(self.data.views) == 1:
            return torch.zeros(photos, dtype=torch.int64)
        return torch.randint(len(self.data.views), (photos,), generator=self.generator)

    def draw_texts(self, captions: int) -> Tensor | None:
        """This rank's rows of so many captions without photos, all of one length; None where there are none."""
        if not self.text_corpus:
            return None
        sizes = torch.tensor([len(group) for group in self.text_corpus], dtype=torch.float32)
        group = self.text_corpus[int(torch.multinomial(sizes, 1, generator=self.generator))]
        chosen = torch.randint(len(group), (captions,), generator=self.generator).tolist()
        words = [self.data.text_corpus[group[number]] for number in chosen[ranks.part_of(captions).rows]]
        return torch.tensor(words, dtype=torch.int64).view(len(words), -1)

    def read(self, names: Sequence[str], views: Tensor, rows: Sequence[int]) -> Tensor:
        """The annotations (b, L, D) of some rows of a mini-batch, each in its view."""
        annotations: dict[int, Tensor] = {}
        for number, view in enumerate(self.data.views):
            chosen = [row for row in rows if views[row] == number]
            if chosen:
                read = view[[names[row] for row in chosen]]
                if len(chosen) == len(rows):
                    return read
                annotations |= zip(chosen, read, strict=True)
        return torch.stack([annotations[row] for row in rows])

    # Losses

    def loss_of_captions(self, drawn: Drawn, annotations: Callable[[], Tensor], texts: Tensor | None) -> Loss:
        """The loss of captions of one length, and of as many captions without photos."""
        return self.with_texts(self.loss_of_drawn(drawn, annotations()), texts, drawn.part.share)

    def loss_of_photos(self, indices: Sequence[int]) -> Loss:
        """The loss of captions of any lengths while the encoder is trained, which encodes each photo once."""
        groups = of_one_length(self.data.captions, indices)
        names = list(dict.fromkeys(self.data.captions[i][0] for i in indices))
        own = {self.data.captions[i][0] for group in groups for i in group[ranks.part_of(len(group)).rows]}
        rows = [row for row, name in enumerate(names) if name in own]
        views = self.draw_views(len(names))
        with self.own_dropout(2):
            encoded = dict(zip([names[row] for row in rows], self.read(names, views, rows), strict=True))
        losses = []
        for group in groups:
            drawn = self.draw(group)
            loss = self.loss_of_drawn(drawn, torch.stack([encoded[name] for name in drawn.names[drawn.part.rows]]))
            self.objective.end_batch()
            losses.append((len(group) / len(indices), loss))
        return self.with_texts(joined(losses), self.draw_texts(len(indices)), ranks.part_of(len(indices)).share)

    def loss_of_drawn(self, drawn: Drawn, annotations: Tensor) -> Loss:
        """The loss of this rank's rows of captions of one length, of the annotations (b, L, D) of their photos."""
        annotations = annotations.to(self.device)
        captions = drawn.captions.to(self.device)
        own = drawn.part.rows
        with self.autocast:
            history = self.history(annotations, captions, own)
        with self.autocast, self.own_dropout(1, captions.shape[1]):
            output = self.decoder.teacher_forcing(
                annotations, captions[own], paths=self.objective.paths, mode=drawn.attention_mode, history=history
            )
            loss = self.objective(output, captions[own], drawn.attention_mode)
        watch = loss.watch if output.beta is None else {**loss.watch, "beta": output.beta.detach().mean()}
        return Loss(drawn.part.share * loss.total, watch)

    def with_texts(self, loss: Loss, texts: Tensor | None, share: float) -> Loss:
        """A loss, and ``share`` of that of captions without photos (b, C).

        Their photo's annotations are zero (Venugopalan et al. 2017, "Captioning Images with Diverse Objects").
        """
        if texts is None:
            return loss
        captions = texts.to(self.device)
        nothing = torch.zeros(len(texts), 1, self.config.decoder.annotation_size, device=self.device)
        with self.autocast, self.own_dropout(4):
            output = self.decoder.teacher_forcing(nothing, captions)
            log_p, losses = self.objective.word_losses(output.logits, captions)
        total = loss.total + share * losses.sum(-1).mean()
        return Loss(total, {**loss.watch, "text_nats": -log_p.detach().mean()})

    @torch.no_grad()
    def history(self, annotations: Tensor, captions: Tensor, own: slice = slice(None)) -> Tensor:
        """The previous words that the decoder is given, for the rows ``own`` of captions (B, C): scheduled sampling.

        A share of them is drawn from the decoder's own distribution, as all of them are at test time (Bengio et al.
        2015, "Scheduled Sampling"). They are drawn in one pass over the true captions, because word by word would cost
        as much as a search. The end token is never drawn, since no word comes after it.
        """
        if self.sampling == 0:
            return captions[own]
        chosen = torch.rand(captions.shape) < self.sampling  # on the CPU, which need not wait for their number
        positions = chosen[own].flatten().nonzero().squeeze(1).to(self.device)
        with self.own_dropout(3, captions.shape[1]):
            output = self.decoder.teacher_forcing(annotations, captions[own])
            logits = promote(output.logits[:, 0].flatten(0, 1)[positions])  # (N, K)
        logits[:, Vocabulary.END] = float("-inf")
        uniforms = torch.rand(int(chosen.sum()))[int(chosen[: own.start or 0].sum()) :][: len(logits)]
        words = drawn_words(torch.softmax(logits, dim=-1), uniforms.to(self.device))
        return captions[own].masked_scatter(chosen[own].to(self.device), words)

    def own_dropout(self, *use: int) -> AbstractContextManager[None]:
        """Random masks of this rank's own for one use in a step, where several ranks share it."""
        return ranks.own_dropout(self.device, self.config.seed, self.taken, self.piece, *use)


def joined(losses: Sequence[tuple[float, Loss]]) -> Loss:
    """The loss of which each is a share, and the mean of what is watched, by the share that each has."""
    watch: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for _, loss in losses for name in loss.watch):
        having = [(share, loss.watch[name]) for share, loss in losses if name in loss.watch]  # not all do
        together = sum(share for share, _ in having)
        watch[name] = torch.stack([share / together * value for share, value in having]).sum()
    return Loss(torch.stack([share * loss.total for share, loss in losses]).sum(), watch)
