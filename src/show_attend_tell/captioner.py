"""`Captioner`: what a user holds. It makes a `Caption` of a photo, with where each word comes from."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from show_attend_tell import backends, generation
from show_attend_tell.backends.base import Backend
from show_attend_tell.caption import Caption
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.hub import DEFAULT_MODEL, find_model, model_name
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.parts_of_speech import singular
from show_attend_tell.data.photos import FEWEST, Photo, is_photo
from show_attend_tell.errors import InvalidValue, PhotoError, SatError
from show_attend_tell.files import as_path
from show_attend_tell.generation import Decoding, GenerationConfig, check_filters, photo_seed
from show_attend_tell.hide.trial import Hidden, hide_place
from show_attend_tell.messages import shorten
from show_attend_tell.search.hypotheses import Hypothesis
from show_attend_tell.search.registry import Filter
from show_attend_tell.vision import registry
from show_attend_tell.vision.prepared import (
    FEW,
    PreparedPhoto,
    prepare_photo,
    progress_bar,
    several_photos,
)

if TYPE_CHECKING:
    import torch

    from show_attend_tell.backends.torch import TorchBackend

LIKELY = 300  # words of the vocabulary among which nouns are looked for
EVIDENCE = "gradient at the mean context"  # the name of the definition, see `Backend.evidence`


class Captioner:
    """A model ready to caption photos: a checkpoint, and the back end that runs it.

    >>> captioner = Captioner.from_pretrained("everyday-soft")  # doctest: +SKIP
    >>> print(captioner("dog.jpg"))  # doctest: +SKIP

    A photo is anything that `open_photo` opens: a path, an address such as a URL, bytes, a file object, a PIL image, an
    array or a tensor. Arrays and tensors are RGB. A captioner that is copied or pickled loads its model again.
    """

    def __init__(self, checkpoint: Checkpoint, backend: Backend, *, name: str = "model") -> None:
        """Put a checkpoint and its back end together; ``name`` is the model's, for captions and messages.

        Raises `SatError` for another encoder than the model was trained on, and for damaged arrays.
        """
        checkpoint.encoder.check(backend.encoder, name)
        self.checkpoint = checkpoint
        self.backend = backend
        self.name = name
        try:
            self.decoding = Decoding.of(checkpoint)
        except SatError as error:
            raise SatError(f"{name} is damaged: {error}: copy the model again") from error
        self._load: Callable[[], Captioner] = partial(_loaded, checkpoint, name, backend.name, backend.device)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._load, ()

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] = DEFAULT_MODEL,
        *,
        device: "str | torch.device" = "auto",
        backend: str = "auto",
        encoder_weights: str | os.PathLike[str] | None = None,
    ) -> "Captioner":
        """Load a shipped model by its name, a folder, or a hub id; ``encoder_weights`` as in `encoder.load_encoder`.

        ``backend`` is "torch", "onnx", or "auto": ONNX Runtime on a processor, where it has the model's parts, and
        PyTorch on a GPU. ONNX Runtime computes in float32 on the processor. Raises `SatError` for a model that is not
        there, is damaged, or was trained on another encoder's weights.
        """
        weights = None if encoder_weights is None else as_path(encoder_weights)
        folder = find_model(name)
        checkpoint = Checkpoint.load(folder)
        title = model_name(folder)
        running = backends.load(checkpoint, title, backend=backend, device=device, encoder_weights=weights)
        captioner = cls(checkpoint, running, name=title)
        captioner._load = partial(cls.from_pretrained, folder, device=device, backend=backend, encoder_weights=weights)
        return captioner

    @overload
    def __call__(self, photos: Photo, config: GenerationConfig | None = None, **options: Any) -> Caption: ...
    @overload
    def __call__(
        self, photos: Iterable[Photo], config: GenerationConfig | None = None, **options: Any
    ) -> list[Caption]: ...
    def __call__(
        self,
        photos: Any,
        config: GenerationConfig | None = None,
        *,
        evidence: bool = False,
        filters: Sequence[Filter] = (),
        batch_size: int = 8,
        progress: bool | None = None,
        **overrides: Any,
    ) -> Any:
        """Caption one photo, or several in a list or a generator, of which one batch at a time is held in memory.

        - ``config``: how captions are made; None for the model's own settings
        - ``evidence``: whether captions have it: the gradient of each word's log p by the attention's energies
        - ``filters``: functions that forbid words or change their log p, see `search.filters.Filter`
        - ``batch_size``: number of photos that are encoded and searched together
        - ``progress``: whether a bar on standard error shows the progress; by default for more than 8 photos
        - ``overrides``: fields of `GenerationConfig` to change, for example ``beam_size=3``

        What is drawn for a photo depends on the seed and the photo's pixels, not on the photos beside it. Raises
        `PhotoError` for the first photo that cannot be read, where `stream` goes on, and `SatError` for a wrong value.
        """
        several = several_photos(photos)
        photos = [photos] if several is None else several
        total = len(photos) if isinstance(photos, Sized) else None
        captions: list[Caption] = []
        with progress_bar(total, show=progress if progress is not None else (total or 0) > FEW) as bar:
            for caption in self.stream(
                photos, config, evidence=evidence, filters=filters, batch_size=batch_size, **overrides
            ):
                if isinstance(caption, PhotoError):
                    raise caption
                captions.append(caption)
                bar.update()
        return captions[0] if several is None else captions

    def stream(
        self,
        photos: "Iterable[Photo | PhotoError]",
        config: GenerationConfig | None = None,
        *,
        evidence: bool = False,
        filters: Sequence[Filter] = (),
        batch_size: int = 8,
        **overrides: Any,
    ) -> Iterator[Caption | PhotoError]:
        """Caption photos as they are asked for, ``batch_size`` at a time; the arguments are those of a call.

        Each gives one caption, or its `PhotoError` where it cannot be read. Raises `SatError` for a wrong value,
        and when the configuration uses a reranker or attention and the model has none.
        """
        if is_photo(photos):
            raise InvalidValue(f"{shorten(photos)} is one photo: give several of them, in a list for example")
        config = self.resolve_config(config, **overrides)
        filters = check_filters(filters)
        if not isinstance(batch_size, (int, np.integer)) or isinstance(batch_size, bool) or batch_size < 1:
            raise InvalidValue(f"batch_size is {shorten(batch_size)}: give a whole number of at least 1")
        waiting = iter(photos)
        preprocessing = self.backend.encoder.preprocessing
        while batch := [prepare_photo(photo, preprocessing) for photo in islice(waiting, batch_size)]:
            good = [photo for photo in batch if isinstance(photo, PreparedPhoto)]
            if good:
                features = self.backend.encode(np.stack([photo.pixels for photo in good]))
                seeds = [photo_seed(config.seed, photo.pixels.tobytes()) for photo in good]
                captions = iter(self.generate(features, config, seeds=seeds, evidence=evidence, filters=filters))
            for photo in batch:
                if isinstance(photo, PhotoError):
                    yield photo
                else:
                    yield self.assemble(
                        next(captions),
                        config,
                        size=photo.size,
                        source=photo.source,
                        kept=photo.kept,
                        passed_over=photo.passed_over,
                    )

    def resolve_config(self, config: GenerationConfig | None = None, **overrides: Any) -> GenerationConfig:
        """How captions are made: the model's settings, or those given, with other values for some.

        Raises `InvalidValue` for anything but a configuration, and `SatError` for a wrong value, and when it uses a
        reranker or attention and the model has none.
        """
        if config is not None and not isinstance(config, GenerationConfig):
            raise InvalidValue(f"config is {shorten(config)}: give GenerationConfig(beam_size=5), for example")
        config = (config or self.checkpoint.generation).merge(**overrides)
        mode = config.attention_mode
        if mode != "mean" and not self.checkpoint.config.attends:
            raise InvalidValue(f"attention_mode is {mode!r}, and {self.name} has no attention: leave it out")
        needed = {
            "rerank_weight": (self.decoding.reranker, "has no reranker"),
            "class_weight": (self.decoding.class_words, "has no class words"),
            "min_confidence": (self.decoding.confidence, "cannot tell how far its words can be trusted"),
        }
        for name, (part, lack) in needed.items():
            if part is None and getattr(config, name):
                raise InvalidValue(f"{name} is {getattr(config, name):g}, and {self.name} {lack}: give 0")
        return config

    @property
    def offset(self) -> tuple[float, float]:
        """How far below and to the right of its cell's middle a location looks, in cells."""
        return registry.offset(self.checkpoint.encoder.name)

    def generate(
        self,
        features: Any,
        config: GenerationConfig | None = None,
        *,
        seeds: Sequence[int],
        evidence: bool = False,
        filters: Sequence[Filter] = (),
    ) -> list[list[Hypothesis]]:
        """The captions of features (B, L, D) of the back end, best first for each photo, see `Decoding.captions`."""
        decoding = dataclasses.replace(self.decoding, config=self.resolve_config(config), filters=filters)
        return decoding.captions(self.backend, features, seeds=seeds, evidence=evidence)

    def explain(
        self,
        photo: Photo,
        text: str,
        config: GenerationConfig | None = None,
        *,
        evidence: bool = False,
        **overrides: Any,
    ) -> Caption:
        """Your own caption as the model reads it, word by word (teacher forcing), with its attention.

        The text is tokenized as training captions were; a word that the model does not know counts as ``<unk>``. With
        the attention mode "sample", the seed and the photo's pixels draw the locations. Raises `SatError` for a text
        without a word.
        """
        config = self.resolve_config(config, **overrides)
        prepared, features, seed = self._encoded(photo, config)
        hypothesis = self.explain_features(features, text, config, seed)
        if evidence:
            (hypothesis,) = generation.with_evidence(self.backend, features, [hypothesis], config)
        caption = self.assemble([hypothesis], config, size=prepared.size, source=prepared.source, kept=prepared.kept)
        of_reading = ("model", "attention_mode", "tokenizer", "seed", "evidence")
        settings = {name: value for name, value in caption.settings.items() if name in of_reading}
        return dataclasses.replace(caption, settings=settings)

    def explain_features(self, features: Any, text: str, config: GenerationConfig, seed: int) -> Hypothesis:
        """`explain` for features (1, L, D) of the back end, with the photo's own seed."""
        words = self.checkpoint.vocabulary.tokenizer.words(text) if isinstance(text, str) else []
        if not words:
            raise InvalidValue(f"caption {shorten(text)} has no word in it: give a text with at least one")
        return generation.explain(self.backend, features, self.checkpoint.vocabulary.encode(words), config, seed)

    def score(self, photo: Any, text: Any, config: GenerationConfig | None = None, **overrides: Any) -> Any:
        """log p(text | photo) in nats, end token included, as `explain` gives it.

        A text gives a number, several texts a list. Several photos, as in a call, give such a result for each. With
        the attention mode "sample" it is that of one sampled sequence of locations. Raises `PhotoError` for the first
        photo that cannot be read, and `SatError` for a text without a word.
        """
        photos = several_photos(photo)
        if photos is not None:
            texts = text if isinstance(text, str) else list(text)
            return [self.score(one, texts, config, **overrides) for one in photos]
        config = self.resolve_config(config, **overrides)
        _, features, seed = self._encoded(photo, config)
        if isinstance(text, str) or not isinstance(text, Iterable):
            return self.explain_features(features, text, config, seed).log_probability
        return [self.explain_features(features, one, config, seed).log_probability for one in text]

    def hide(
        self, caption: Caption, word: str | int | None = None, *, place: Any = None, filters: Sequence[Filter] = ()
    ) -> Hidden:
        """Hide what a word (or its number) lit, or a ``place``, and caption the photo again, see `hide_place`."""
        return hide_place(self, caption, word, place, check_filters(filters))

    def instead(self, caption: Caption, number: int = 3) -> dict[str, list[str]]:
        """Other nouns for each word to be checked: the most probable ones after the same words (teacher forcing).

        Each is there once, in the singular or the plural, and none that the caption has. Raises `PhotoError` for a
        photo that cannot be read any more.
        """
        if not caption.to_check:
            return {}
        config = self.resolve_config()
        vocabulary = self.checkpoint.vocabulary
        _, features, seed = self._encoded(cast("Photo", caption.kept), config)
        words = [word.lower() for word in caption.words]
        log_p = generation.next_words(self.backend, features, vocabulary.encode(words), config, seed)
        said = set(map(singular, words))
        offers = {}
        for place in caption._to_check():
            nouns: dict[str, str] = {}
            for other in np.argsort(-log_p[place])[:LIKELY]:
                noun = singular(vocabulary.words[other])
                if noun is not None and noun not in said:
                    nouns.setdefault(noun, vocabulary.words[other])
            offers[caption.words[place]] = list(nouns.values())[:number]
        return offers

    def assemble(
        self,
        hypotheses: Sequence[Hypothesis],
        config: GenerationConfig,
        *,
        size: tuple[int, int] | None = None,
        **photo: Any,
    ) -> Caption:
        """The caption of the first hypothesis; the others are its alternatives.

        ``size`` is the photo's width and height in pixels. Without it, the part that the encoder saw is not known.
        ``photo`` are other fields of `Caption` about it: ``source``, ``kept`` and ``passed_over``.
        """
        best = hypotheses[0]
        vocabulary = self.checkpoint.vocabulary
        rows, columns = self.checkpoint.encoder.grid
        attention = as_array(best.alpha)
        locations = as_array(best.locations)
        too_small = size is not None and min(size) < FEWEST
        settings = {"model": self.name, **dataclasses.replace(self.decoding, config=config).settings()}
        others = [] if config.num_captions is None else hypotheses[1:]
        trust = 0.5 if too_small or best.unlike else 1.0  # then each word is to be checked
        return Caption(
            words=best.said(vocabulary),
            log_probability=best.log_probability,
            word_log_probabilities=np.array(best.word_log_probabilities, dtype=np.float64),
            attention=None if attention is None else attention.reshape(-1, rows, columns),
            evidence=None if best.evidence is None else best.evidence.reshape(-1, rows, columns),
            gate=as_array(best.beta),
            locations=None if locations is None else np.stack([locations // columns, locations % columns], axis=1),
            rerank_score=best.rerank_score,
            word_confidence=None if best.word_confidence is None else trust * np.array(best.word_confidence, float),
            unlike=best.unlike,
            complete=best.ended,
            alternatives=[
                (vocabulary.tokenizer.text(other.said(vocabulary)), other.log_probability) for other in hypotheses[1:]
            ],
            settings=settings | ({} if best.evidence is None else {"evidence": EVIDENCE}),
            size=size,
            visible_box=None if size is None else self.backend.encoder.preprocessing.seen(*size),
            offset=self.offset,
            others=[self.assemble([other], config, size=size, **photo) for other in others],
            **photo,
        )

    def torch_backend(self) -> "TorchBackend":
        """The back end, where it is PyTorch's. Raises `SatError` for a captioner of another one."""
        if self.backend.name != "torch":
            raise InvalidValue(f"{self.name} is run by {self.backend.name}: load it with backend='torch'")
        return cast("TorchBackend", self.backend)

    def _encoded(self, photo: Photo, config: GenerationConfig) -> tuple[PreparedPhoto, Any, int]:
        """One photo, its features (1, L, D) and its seed. Raises `PhotoError`."""
        prepared = prepare_photo(photo, self.backend.encoder.preprocessing)
        if isinstance(prepared, PhotoError):
            raise prepared
        seed = photo_seed(config.seed, prepared.pixels.tobytes())
        return prepared, self.backend.encode(prepared.pixels[None]), seed


def _loaded(checkpoint: Checkpoint, name: str, backend: str, device: str) -> Captioner:
    """A captioner that was made of a checkpoint, when it is copied."""
    return Captioner(checkpoint, backends.load(checkpoint, name, backend=backend, device=device), name=name)
