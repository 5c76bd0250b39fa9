"""CMU/MS Research (Chen and Zitnick, *Learning a Recurrent Visual Representation for Image Caption Generation*, 2014):
a recurrent network whose second recurrent layer remembers what the words so far say that the photo looks like.

    s_t = σ(W_sw y_{t−1} + W_ss s_{t−1} + W_sv ā)    (language; y are the words' embeddings)
    u_t = σ(W_uw y_{t−1} + W_uu u_{t−1})             (the visual memory: it never sees the photo)
    ṽ_t = W_vu u_t                                   (the photo, reconstructed from the words before)
    p(y_t) = softmax(W_os s_t + W_ou u_t + W_ov ā + b_o)

It learns to reconstruct the photo besides predicting words: ‖ṽ_t − ā‖² / D is added to the loss of every word. So u
can tell the photo's content that was said from what is still to say. ā is the mean annotation here.
Left out: classes of rare words, and n-gram features in the last layer. The layers have 512 units, like the other
systems here, instead of 100.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.interface import MEAN_ATTENTION, DecoderOutput, State, Step
from show_attend_tell.model.kernels import promote
from show_attend_tell.settings import Amount, Count, settings
from table1.baseline import Baseline, BaselineConfig, zeros


@settings
class CmuMsrConfig(BaselineConfig):
    """The sizes of CMU/MS Research."""

    kind = "cmu_msr"
    system = "CMU/MS Research (Chen and Zitnick, 2014)"
    hidden_size: Count = 512  # of s
    visual_size: Count = 512  # of u
    reconstruction: Amount = 1.0  # weight of the error of ṽ in the loss


class Memory(NamedTuple):
    """What `CmuMsr` carries from step to step."""

    language: Tensor  # s_t (..., n)
    visual: Tensor  # u_t (..., n_u)


class CmuMsr(Baseline):
    """The generator of CMU/MS Research."""

    config: CmuMsrConfig

    def __init__(self, config: CmuMsrConfig) -> None:
        super().__init__(config)
        n, visual, D = config.hidden_size, config.visual_size, config.annotation_size
        self.language_from_word = nn.Linear(config.embedding_size, n)
        self.language_from_language = nn.Linear(n, n, bias=False)
        self.language_from_photo = nn.Linear(D, n, bias=False)
        self.visual_from_word = nn.Linear(config.embedding_size, visual)
        self.visual_from_visual = nn.Linear(visual, visual, bias=False)
        self.photo_from_visual = nn.Linear(visual, D)  # W_vu
        self.output = nn.Linear(n + visual, config.vocabulary_size)  # W_os and W_ou
        self.output_from_photo = nn.Linear(D, config.vocabulary_size, bias=False)  # W_ov
        self.initialize()

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The source has ā's shares of s and of the logits; s and u are zero."""
        photo = self.mean_annotation(annotations)  # (B, 1, D)
        source = (self.language_from_photo(photo), self.output_from_photo(photo))
        memory = Memory(zeros(photo, paths, self.config.hidden_size), zeros(photo, paths, self.config.visual_size))
        return State(source, memory)

    def mean(self, annotations: Tensor) -> Tensor:
        """ā (B, 1, D), without dropout."""
        return nn.functional.layer_norm(promote(annotations).mean(1, keepdim=True), annotations.shape[-1:])

    def step(self, embedded: Tensor, state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        language, logits = state.source
        before: Memory = state.memory
        now = Memory(
            torch.sigmoid(
                promote(self.language_from_word(embedded) + self.language_from_language(before.language) + language)
            ),
            torch.sigmoid(promote(self.visual_from_word(embedded) + self.visual_from_visual(before.visual))),
        )
        return Step((now, logits.expand(-1, embedded.shape[1], -1)), State(state.source, now))

    def read_out(self, output: tuple[Memory, Tensor]) -> Tensor:
        memory, from_photo = output
        logits: Tensor = self.output(self.dropout(torch.cat(memory, dim=-1))) + from_photo
        return logits

    def teacher_forcing(self, annotations: Tensor, captions: Tensor, **how: Any) -> DecoderOutput:
        """With Σ_t ‖ṽ_t − ā‖² / D of each path (B, P), weighted, as the penalty."""
        found = super().teacher_forcing(annotations, captions, **how)
        mean = self.mean(annotations.to(self.language_from_photo.weight.dtype))
        wrong = (promote(self.photo_from_visual(found.output[0].visual)) - mean[:, None]).square().mean(-1)  # (B, P, C)
        return found._replace(penalty=self.config.reconstruction * wrong.sum(-1))
