"""Visual n-grams: the words, pairs and triples of words that a photo's captions are expected to have.

- **Input**: the second moments of the photo's annotations, Σ_i a_i a_iᵀ. They say which channels of the encoder are
  active at the same places. Their signed square roots are scaled to length one (Carreira et al. 2012, Perronnin et al.
  2010).
- **Prediction**: a linear map from the input to the share of captions that have each n-gram (n-grams from photos: Li et
  al. 2017; words from photos, to rank captions: Fang et al. 2015).
- **Training**: ridge regression in closed form on the photos and captions of the training split, cut to its R main
  directions.
- **Use**: beam search makes its captions without it. Then the captions are ranked by how well they agree with the
  prediction.

N training photos · B photos · L places · D annotation size · C ≤ D channels · M = C(C+1)/2 second moments ·
R directions · G n-grams.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from show_attend_tell.checkpoint.packing import SCALE, pack, pack_4bit, unpack, unpack_4bit
from show_attend_tell.devices import native_bf16
from show_attend_tell.errors import SatError
from show_attend_tell.progress import Progress
from show_attend_tell.rerank.agreement import LONGEST, SELDOM, Ngram, NgramReranker, counted, said
from show_attend_tell.rerank.ngrams import digest
from show_attend_tell.vision.sources import Annotations

LEAST = 10  # training captions that an n-gram is in
MOST = 6_000  # n-grams: the most frequent, where there are more
DIRECTIONS = 64
CHANNELS = 256  # the channels that vary most, where an encoder has more
PHOTOS = 10_000  # training photos, evenly chosen where there are more: the N × N system must fit into memory
RIDGE = 0.6  # of the mean squared length of the centred second moments
TOGETHER = 32  # photos whose second moments are made at once
SLICE = 8192  # second moments multiplied at once


class VisualNgrams(NgramReranker, nn.Module):
    """E[n-gram | photo], the share of a photo's captions that are expected to have each of G n-grams.

    ``packed`` has the tensors as a file holds them: `fit` rounds the directions to 4 bits a weight, and the rest to 8.
    A model names its visual n-grams by their ``digest``.
    """

    channels: Tensor  # (C,) int64, of D
    directions: Tensor  # (R, M)
    offset: Tensor  # (R,), the directions applied to the mean training photo
    shares: Tensor  # (G, R)
    prior: Tensor  # (G,), the mean shares of the training photos
    ngrams: Tensor  # (G, 1 + LONGEST) int32, each an `Ngram` filled up with −1
    length: Tensor  # (), the mean length of training captions in words

    def __init__(self, packed: Mapping[str, Tensor]) -> None:
        """Take the tensors listed above, packed in 4 or 8 bits a weight or not packed.

        Raises `SatError` for tensors that are missing or do not fit each other.
        """
        super().__init__()
        self.packed = {name: tensor.cpu().contiguous() for name, tensor in packed.items()}
        halves = (torch.bfloat16,)  # which NumPy does not have: its bytes count
        self.digest = digest(
            {
                name: (tensor.view(torch.int16) if tensor.dtype in halves else tensor).numpy()
                for name, tensor in self.packed.items()
            }
        )
        tensors = unpack(packed)
        try:
            (C,) = tensors["channels"].shape
            M = C * (C + 1) // 2
            if packed["directions"].dtype == torch.uint8 and tensors["directions"].shape[1] == M + M % 2:
                tensors["directions"] = tensors["directions"][:, :M]  # two to a byte
            for name in VisualNgrams.__annotations__:
                self.register_buffer(name, tensors[name])
            (R, _), (G, _) = self.directions.shape, self.shares.shape
        except (KeyError, ValueError, TypeError) as error:
            raise SatError(f"these tensors are not visual n-grams ({error!r})") from error
        expected = {
            "channels": ((C,), torch.int64),
            "directions": ((R, M), torch.float32),
            "offset": ((R,), torch.float32),
            "shares": ((G, R), torch.float32),
            "prior": ((G,), torch.float32),
            "ngrams": ((G, 1 + LONGEST), torch.int32),
            "length": ((), torch.float32),
        }
        for name, (shape, dtype) in expected.items():
            value = getattr(self, name)
            if tuple(value.shape) != shape or value.dtype != dtype or not value.isfinite().all():
                raise SatError(f"the visual n-grams' {name} are damaged: {tuple(value.shape)} {value.dtype}")
        if not (C and R and G) or self.channels.min() < 0 or self.length < 0:
            raise SatError("the visual n-grams are empty or damaged")
        known: list[Ngram] = [tuple(part for part in row if part >= 0) for row in self.ngrams.tolist()]
        self.numbers = {ngram: number for number, ngram in enumerate(known)}
        first = [self.numbers.get((0, *ngram[1:]), number) for number, ngram in enumerate(known)]
        self.common: Tensor  # (G,), the mean shares of captions that have the n-grams at least once
        self.register_buffer("common", self.prior[first].clamp_min(SELDOM))

    def expected(self, annotations: Tensor) -> Tensor:
        """The shares of captions that are expected to have each n-gram, (B, G), of annotations (B, L, D)."""
        if int(self.channels.max()) >= annotations.shape[-1]:
            raise SatError(f"the visual n-grams read annotations of another size than {annotations.shape[-1]}")
        moments = second_moments(annotations, self.channels)
        along = (self.directions @ moments.T).T  # several times faster than the other way round
        return (self.prior + (along - self.offset) @ self.shares.T).clamp_min(0)

    def worth(self, rare_word_exponent: float) -> Tensor:
        """How much each n-gram counts in the agreement, (G,): one, and for a word more the rarer it is.

        A word that a share p of the training captions has counts p^−τ, τ being ``rare_word_exponent``, times a constant. A word's
        second time in a caption counts as much as its first. By the constant, the mean agreement of training captions
        with the mean training photo does not depend on τ.
        """
        words = self.ngrams[:, 2] < 0
        p, powers = self.prior[words], self.common[words] ** -rare_word_exponent
        worth = torch.ones_like(self.prior)
        worth[words] = powers * (p**2).sum() / (p**2 * powers).sum().clamp_min(torch.finfo(p.dtype).tiny)
        return worth

    @staticmethod
    @torch.no_grad()
    def fit(
        annotations: Annotations,
        captions: Mapping[str, Sequence[Sequence[int]]],
        *,
        device: torch.device,
        show: bool = True,
    ) -> "VisualNgrams | None":
        """The visual n-grams of training photos, given by name, and their ``captions`` as word ids.

        None when no n-gram is in `LEAST` captions. Raises `SatError` for annotations that are not finite.
        """
        home, device = device, torch.device("cpu") if device.type == "mps" else device  # mps lacks cholesky_solve
        every = [words for each in captions.values() for words in each]
        seen: Counter[Ngram] = Counter(ngram for words in every for ngram in counted(words))
        frequent = {ngram for ngram, times in seen.most_common(MOST) if times >= LEAST}
        known = [ngram for ngram in seen if ngram in frequent]
        if not known:
            return None
        number = {ngram: index for index, ngram in enumerate(known)}
        names = evenly(list(captions), PHOTOS)
        shares = torch.zeros(len(names), len(known))  # (N, G)
        for row, name in enumerate(names):
            for words in captions[name]:
                for ngram in counted(words):
                    if ngram in number:
                        shares[row, number[ngram]] += 1 / len(captions[name])
        channels = varied(annotations, names).to(device)
        moments = torch.empty(len(names), len(channels) * (len(channels) + 1) // 2, dtype=torch.bfloat16, device=device)
        for start in Progress(range(0, len(names), TOGETHER), desc="visual n-grams", unit="batch", disable=not show):
            batch = annotations[names[start : start + TOGETHER]].to(device)
            moments[start : start + TOGETHER] = second_moments(batch, channels).bfloat16()
        centre = torch.empty(moments.shape[1], device=device)
        for part in slices(moments):
            centre[part] = moments[:, part].float().mean(0)
            moments[:, part] = (moments[:, part].float() - centre[part]).bfloat16()
        prior = shares.mean(0)
        directions, axes = reduced_ridge(moments, (shares - prior).to(device))
        packed, scale = pack_4bit(directions)
        rounded = unpack_4bit(packed, scale)[:, : len(centre)]
        small = {
            "channels": channels,
            "offset": rounded @ centre,
            "shares": axes,
            "prior": prior,
            "ngrams": torch.tensor([[*ngram, *[-1] * (1 + LONGEST - len(ngram))] for ngram in known]).int(),
            "length": torch.tensor(sum(map(len, map(said, every))) / len(every)),
        }
        return VisualNgrams({"directions": packed, "directions" + SCALE: scale, **pack(small)}).to(home)


def reduced_ridge(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The ridge regression of centred targets (N, G) on centred inputs (N, M), cut to R = `DIRECTIONS` or fewer.

    Returns the directions (R, M) and the axes (G, R). Their product maps inputs to targets: it is the regression's
    matrix of coefficients, projected on the main axes of its predictions for the inputs.
    """
    dtype = torch.bfloat16 if native_bf16(inputs.device) else torch.float32
    kernel = torch.zeros(len(inputs), len(inputs), device=inputs.device)
    for part in slices(inputs):
        factor = inputs[:, part].to(dtype)
        kernel += (factor @ factor.T).float()
    if not kernel.isfinite().all():
        raise SatError("the encoder's annotations hold values that are not finite: train it at a lower rate")
    scale = kernel.diagonal().mean().clamp_min(torch.finfo(torch.float32).tiny)
    kernel /= scale
    ridge = kernel + RIDGE * torch.eye(len(inputs), device=inputs.device)
    dual = torch.cholesky_solve(targets, torch.linalg.cholesky(ridge))  # (N, G)
    rank = min(DIRECTIONS, *dual.shape)
    with torch.random.fork_rng(devices=[inputs.device] if inputs.device.type == "cuda" else []):
        torch.manual_seed(0)  # of the randomized decomposition
        axes = torch.svd_lowrank(kernel @ dual, q=min(rank + 16, *dual.shape), niter=4)[2][:, :rank].contiguous()
    dual = (dual @ axes / scale).to(dtype)  # (N, R)
    directions = torch.cat([(inputs[:, part].to(dtype).T @ dual).float() for part in slices(inputs)])
    return directions.T.contiguous(), axes


def second_moments(annotations: Tensor, channels: Tensor) -> Tensor:
    """Signed square roots of Σ_i a_i a_iᵀ's upper triangle, scaled to length one: (B, M), of annotations (B, L, D).

    Each annotation a_i is first made to have mean 0 and variance 1 over all of its channels.
    """
    normal = nn.functional.layer_norm(annotations.float(), annotations.shape[-1:]).index_select(-1, channels)
    moments = (normal.mT @ normal).flatten(1).index_select(1, upper_triangle(len(channels), annotations.device))
    return nn.functional.normalize(torch.copysign(moments.abs().sqrt(), moments), dim=-1)


@functools.cache
def upper_triangle(size: int, device: torch.device) -> Tensor:
    """Where the upper triangle of a square matrix is among its values in row-major order: (size · (size + 1) / 2,)."""
    rows, columns = torch.triu_indices(size, size, device=device)
    locations: Tensor = rows * size + columns
    return locations


def varied(annotations: Annotations, names: Sequence[str]) -> Tensor:
    """The `CHANNELS` channels that vary most over some of the photos' places, or all where there are no more: (C,)."""
    few = evenly(names, 200)
    parts = [annotations[few[start : start + TOGETHER]].cpu().float() for start in range(0, len(few), TOGETHER)]
    D = parts[0].shape[-1]
    if D <= CHANNELS:
        return torch.arange(D)
    normal = nn.functional.layer_norm(torch.cat(parts), (D,)).flatten(0, 1)
    return normal.var(0).topk(CHANNELS).indices.sort().values


def evenly(names: Sequence[str], most: int) -> list[str]:
    """All of the names, or so many of them at even distances."""
    return [names[index * len(names) // most] for index in range(most)] if len(names) > most else list(names)


def slices(moments: Tensor) -> list[slice]:
    """The columns in parts, so that only one of them at a time is in float32."""
    return [slice(start, start + SLICE) for start in range(0, moments.shape[1], SLICE)]
