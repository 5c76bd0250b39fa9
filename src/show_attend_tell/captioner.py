"""What a user holds: `Captioner` makes a `Caption` of a photo, with where it looked for every word.

T words, end token excluded · L places in a grid of rows and columns.
"""

import dataclasses
import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from show_attend_tell.backends import pick_backend
from show_attend_tell.backends.onnx.checkpoint import OnnxCheckpoint
from show_attend_tell.backends.onnx.decoder import OnnxDecoder, OnnxSession
from show_attend_tell.checkpoint.hub import find_model, model_name
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.data.photos import Photo, is_photo, open_photo
from show_attend_tell.data.tokenizers import KARPATHY, Unigram, joined
from show_attend_tell.devices import native_bf16, needs_torch, pick_device
from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.messages import first_three, plural, shorten
from show_attend_tell.progress import Progress
from show_attend_tell.rerank.ngrams import UNSURE
from show_attend_tell.search import Hypothesis, different, ranked, search_batch_size
from show_attend_tell.search.beam import search
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.search.hypotheses import teacher_forced
from show_attend_tell.search.sampling import draw
from show_attend_tell.settings import AttentionModeName, Count, CountOrNone, Rate, settings
from show_attend_tell.show import page, pictures
from show_attend_tell.show.pictures import Colormap, Style
from show_attend_tell.show.pictures.figure import FigureData

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from show_attend_tell.checkpoint.checkpoint import Bits, Checkpoint
    from show_attend_tell.model.attention import AttentionMode
    from show_attend_tell.model.interface import Decoder
    from show_attend_tell.vision.encoder import Encode, Encoder

KEPT = 1000  # pixels of the longer side of a photo that a caption holds
FEW = 8  # photos that are captioned without showing the progress
PROGRESS = "{n_fmt} of {total_fmt} photos |{bar:30}| {elapsed} gone, {remaining} left"


@dataclass(frozen=True, kw_only=True, eq=False)
class Caption:
    """A caption and the evidence for it; prints as its sentence."""

    words: list[str]  # T
    log_probability: float  # natural logarithm, end token included, with the look in `settings`
    attention: NDArray[np.float32] | None  # α (T, rows, columns), each map sums to one
    gate: NDArray[np.float32] | None  # β (T,), 0 to 1; None for a model without a gate
    locations: NDArray[np.int64] | None  # (T, 2) row and column looked at; None when looking by expectation
    complete: bool  # False when the longest length came before the caption's end
    alternatives: list[tuple[str, float]]  # other captions of the beam with their log-probabilities, best first
    settings: dict[str, Any]  # model, beam or sampling, look, seed; the tokenizer if it is not the English one
    rerank_score: float | None = None  # with the photo's visual n-grams, from 0; None where nothing ranks
    doubt: float | None = None  # 0 to 1: the share of known photos whose captions deserve less doubt; None if not known
    source: str | None = None  # the photo's path, when it came from one
    size: tuple[int, int] | None = None  # the photo's width and height in pixels
    visible_box: tuple[float, float, float, float] | None = None  # what the encoder saw of it, in its pixels
    kept: Path | Image.Image | None = field(default=None, repr=False)  # where `photo` comes from

    def __str__(self) -> str:
        return joined(self.words, self.settings.get("tokenizer", KARPATHY.name))

    @property
    def unsure(self) -> bool:
        """Whether the caption should not be trusted: its doubt is above 0.95, that of one known photo in twenty."""
        return self.doubt is not None and self.doubt > UNSURE

    @property
    def photo(self) -> Image.Image | None:
        """The photo, upright and in RGB, or None for a caption without one.

        A photo that came from a file is read from it again each time, so that many captions take little memory. Of any
        other photo this is a copy, with at most 1,000 pixels a side. Raises `SatError` for a file that is gone.
        """
        return open_photo(self.kept) if isinstance(self.kept, Path) else self.kept

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: everything but the photo itself."""

        def rounded(array: NDArray[Any] | None) -> Any:
            return None if array is None else np.round(array.astype(float), 6).tolist()

        return {
            "source": self.source,
            "caption": str(self),
            "words": self.words,
            "log_probability": self.log_probability,
            "complete": self.complete,
            "attention": rounded(self.attention),
            "gate": rounded(self.gate),
            "locations": None if self.locations is None else self.locations.tolist(),
            "rerank_score": self.rerank_score,
            "doubt": self.doubt,
            "unsure": self.unsure,
            "alternatives": [{"caption": text, "log_probability": score} for text, score in self.alternatives],
            "size": None if self.size is None else list(self.size),
            "visible_box": None if self.visible_box is None else list(self.visible_box),
            "settings": self.settings,
        }

    def html(self, *, compare: Iterable["Caption"] = (), cards: Mapping[str, str] | None = None) -> str:
        """One page to explore the caption in, word by word, that needs no other file and no network.

        Captions ``compare`` it, of the same photo by another model, say, are on the page too; ``cards`` are models'
        cards (`Checkpoint.card`) by name. Raises `SatError` for a caption without its photo.
        """
        told = [page.with_image(caption.to_dict(), caption.photo) for caption in self._with(compare)]
        return page.captions_page(told, title=Path(self.source).name if self.source else str(self), cards=cards)

    def _repr_html_(self) -> str | None:
        """How Jupyter shows a caption: as a page, or as text when it has no photo or the photo's file is gone."""
        try:
            return page.frame(self.html())
        except SatError:
            return None

    def picture(
        self,
        *,
        compare: Iterable["Caption"] = (),
        colormap: Colormap = "light",
        dark: bool = False,
        per_word_scale: bool = False,
    ) -> Image.Image:
        """The photo once for every word, light where the word looked (paper sec. 5.4).

        ``compare`` are captions to stand beside it, of the same photo by another model, say. ``colormap`` "heat" shows
        attention as colors over a gray photo, for color-blind eyes and print; ``dark`` draws on a dark page. All words
        of a caption share one scale, unless ``per_word_scale`` gives each its own peak. Raises `SatError` for a caption
        without its photo or of a model without attention.
        """
        style = Style(colormap=colormap, dark=dark, per_word_scale=per_word_scale)
        return pictures.strip([caption._figure_data() for caption in self._with(compare)], style)

    def save(
        self,
        file: str | os.PathLike[str],
        *,
        compare: Iterable["Caption"] = (),
        colormap: Colormap = "light",
        dark: bool = False,
        per_word_scale: bool = False,
    ) -> None:
        """Write the caption's picture, whole or not at all, in the format that the file's name ends in.

        That is .png, the `picture`; .svg, the same with letters that stay letters, for papers and slides; .gif or
        .webp, which move from word to word; or .html, a page to explore, whose reader chooses colors and scale. The
        options are `picture`'s. Raises `SatError` for another ending and where `picture` does.
        """
        file = path_of(file)
        form = file.suffix.lower().removeprefix(".")
        if form not in (*pictures.FORMATS, "html"):
            raise SatError(f"{file}: name a file that ends in .{', .'.join(pictures.FORMATS)} or .html")
        if form == "html":
            text = self.html(compare=compare)
            atomic_write(file, lambda scratch: scratch.write_text(text, encoding="utf-8"))
        else:
            figures = [caption._figure_data() for caption in self._with(compare)]
            style = Style(colormap=colormap, dark=dark, per_word_scale=per_word_scale)
            atomic_write(file, lambda scratch: pictures.save(scratch, figures, style, form=form))

    def _with(self, compare: Iterable["Caption"]) -> list["Caption"]:
        """This caption and those beside it."""
        others = list(compare) if isinstance(compare, Iterable) else []
        if not isinstance(compare, Iterable) or not all(isinstance(caption, Caption) for caption in others):
            raise SatError(f"beside is {shorten(compare)}: give a list of captions")
        return [self, *others]

    def _figure_data(self) -> FigureData:
        photo = self.photo
        if photo is None or self.visible_box is None or self.attention is None:
            raise SatError("this caption has no photo or no attention to draw: caption a photo with an attention model")
        width, height = self.size or photo.size
        x, y = photo.width / width, photo.height / height
        left, top, right, bottom = self.visible_box
        log_probability, settings = f"{self.log_probability:.2f}".replace("-", "−"), self.settings
        return FigureData(
            photo=photo,
            words=self.words,
            between="" if self.settings.get("tokenizer") == Unigram.name else " ",
            attention=self.attention,
            gate=self.gate,
            visible_box=(left * x, top * y, right * x, bottom * y),
            locations=self.locations,
            title=f"{self}{'' if self.complete else ' …'}",
            note=f"{settings['model']} · attention mode: {settings['attention_mode']} · log p {log_probability}",
        )


class Captioner:
    """A model ready to caption photos: an encoder, a decoder, a vocabulary, and its decoding defaults.

    >>> captioner = Captioner.from_pretrained("everyday-soft")  # doctest: +SKIP
    >>> print(captioner("dog.jpg"))  # doctest: +SKIP
    """

    encoder: "Encoder"
    decoder: "Decoder"
    encode: "Encode"  # pixels (B, 3, S, S) to annotations (B, L, D), as fast as the back end goes
    reranker: Any  # what has `NgramReranker.add_rerank_scores`, or None
    device: "torch.device"
    beam_search: Any  # of PyTorch's decoders, see `fastest_beam_search`

    def __init__(
        self,
        checkpoint: "Checkpoint",
        encoder: "Encoder",
        *,
        name: str = "model",
        device: "torch.device | None" = None,
    ) -> None:
        """Put a checkpoint and its encoder together; raises `SatError` when they do not belong together.

        Both are of one back end: `Checkpoint` and `Encoder` of PyTorch, or `OnnxCheckpoint` and `OnnxEncoder`, which
        have the same names for arrays instead of tensors.
        """
        checkpoint.encoder.check(encoder, name)
        self.checkpoint, self.name = checkpoint, name
        if isinstance(checkpoint, OnnxCheckpoint):
            self.device = device or cast("torch.device", CPU)
            self.encoder, self.decoder, self.reranker = encoder, checkpoint.decoder, checkpoint.reranker
            self.encode = encoder.annotate
            return
        from show_attend_tell.backends.encoding import fastest_encode
        from show_attend_tell.backends.optimized import fastest_beam_search

        self.device = device or pick_device("cpu")
        self.encoder = encoder.to(self.device)
        self.encode = fastest_encode(self.encoder)
        self.decoder = checkpoint.decoder.to(self.device).eval()
        fitted = None if checkpoint.reranker is None else checkpoint.reranker.to(self.device)
        self.reranker = fitted or self.decoder.own_reranker()
        self.beam_search = fastest_beam_search(self.device, bf16=native_bf16(self.device))

    @classmethod
    def from_pretrained(
        cls,
        *names_or_paths: str | os.PathLike[str],
        device: "str | torch.device" = "auto",
        encoder_weights: str | os.PathLike[str] | None = None,
        backend: str = "auto",
        precision: str = "auto",
    ) -> "Captioner":
        """Load a shipped model by its name, a folder, or a hub id; ``encoder_weights`` as in `encoder.load_encoder`.

        ``backend`` is "torch", "onnx", or "auto", which is PyTorch where it is installed. ONNX Runtime computes in
        float32 on the processor, and with ``precision`` "int8" it encodes photos in 8 bits, faster and less exactly.
        Several models are an ensemble, which averages their probabilities and decodes as the first model does; it needs
        PyTorch. Raises `SatError` for a model that is not there, is damaged, or was trained on another encoder's
        weights, for models that cannot be an ensemble, and for a precision that the model or the back end lacks.
        """
        if not names_or_paths:
            raise SatError("there is no model to load: give a name, a folder or a hub id")
        for path in (*names_or_paths, *([] if encoder_weights is None else [encoder_weights])):
            path_of(path)
        weights = None if encoder_weights is None else os.fsdecode(encoder_weights)
        onnx = pick_backend(backend) == "onnx"
        if precision not in ("auto", "int8"):
            raise SatError(f"precision {precision!r}: choose auto or int8")
        if precision == "int8" and not onnx:
            raise SatError("precision 'int8' is for ONNX Runtime: choose backend onnx too")
        folders = [find_model(os.fspath(name)) for name in names_or_paths]
        names = [model_name(folder) for folder in folders]
        name = " + ".join(names)
        if onnx:
            if str(device) not in ("auto", "cpu"):
                raise SatError(f"device {str(device)!r}: without PyTorch, captions are made on the cpu; leave it out")
            if len(folders) > 1:
                raise needs_torch("an ensemble")
            light = OnnxCheckpoint.load(folders[0])
            encoder = light.load_encoder(name, weights)
            if precision == "int8":
                encoder.use_int8()
            return cls(cast("Checkpoint", light), cast("Encoder", encoder), name=name)
        from show_attend_tell.checkpoint.checkpoint import Checkpoint, join

        checkpoints = [Checkpoint.load(folder) for folder in folders]
        checkpoint = checkpoints[0] if len(names) == 1 else join(names, checkpoints)
        return cls(checkpoint, checkpoint.load_encoder(name, weights), name=name, device=pick_device(device))

    def save_pretrained(self, folder: str | os.PathLike[str], *, bits: "Bits" = 32) -> None:
        """Write the model as a checkpoint folder, with ``bits`` bits per weight; needs PyTorch."""
        if isinstance(self.checkpoint, OnnxCheckpoint):
            raise needs_torch("saving a model")
        self.checkpoint.save(path_of(folder), bits=bits)

    @overload
    def __call__(  # type: ignore[overload-overlap]  # an open file is iterable too, and yet it is one photo
        self,
        photos: Photo,
        *,
        beam_size: int | None = None,
        attention_mode: AttentionModeName | None = None,
        length_penalty: float | None = None,
        rerank_weight: float | None = None,
        sampling: "Sampling | None" = None,
        num_captions: int | None = None,
        seed: int = 0,
        batch_size: int = 8,
        errors: Literal["raise"] = "raise",
        progress: bool | None = None,
    ) -> Caption: ...
    @overload
    def __call__(
        self,
        photos: Iterable[Photo],
        *,
        beam_size: int | None = None,
        attention_mode: AttentionModeName | None = None,
        length_penalty: float | None = None,
        rerank_weight: float | None = None,
        sampling: "Sampling | None" = None,
        num_captions: int | None = None,
        seed: int = 0,
        batch_size: int = 8,
        errors: Literal["raise"] = "raise",
        progress: bool | None = None,
    ) -> list[Caption]: ...
    @overload
    def __call__(
        self,
        photos: Iterable[Photo],
        *,
        beam_size: int | None = None,
        attention_mode: AttentionModeName | None = None,
        length_penalty: float | None = None,
        rerank_weight: float | None = None,
        sampling: "Sampling | None" = None,
        num_captions: int | None = None,
        seed: int = 0,
        batch_size: int = 8,
        errors: Literal["skip"],
        progress: bool | None = None,
    ) -> list[Caption | None]: ...
    def __call__(
        self,
        photos: Any,
        *,
        beam_size: int | None = None,
        attention_mode: AttentionModeName | None = None,
        length_penalty: float | None = None,
        rerank_weight: float | None = None,
        sampling: "Sampling | None" = None,
        num_captions: int | None = None,
        seed: int = 0,
        batch_size: int = 8,
        errors: Literal["raise", "skip"] = "raise",
        progress: bool | None = None,
    ) -> Caption | list[Caption] | list[Caption | None] | None:
        """Caption one photo, or several; a photo is anything that `open_photo` opens.

        Args:
            photos: One photo, or several in a list or a generator. Only one is held in memory at a time.
            beam: Beam width; 1 is greedy search.
            look: How attention is read: "expectation" (weighted mean), "likeliest" (the top place) or "sampled" (a
                random place).
            length_penalty: Exponent γ of the caption score log p / length^γ.
            rerank_weight: Weight ω of the reranker in the caption score.
            sampling: How to draw words at random, instead of searching for the likeliest.
            several: Number of captions that differ in content: the caption and, as its ``alternatives``, others of the
                beam that are good and say something else. By default the alternatives are the beam's others, best
                first.
            seed: Random seed. What is drawn for a photo depends on the seed and the photo's pixels, not on the photos
                beside it.
            batch_size: Number of photos that are encoded and searched together.
            errors: What a photo that cannot be read does: "raise" a `SatError`, or "skip" it. A skipped photo has None
                in the list, and a warning says how many there are.
            progress: Whether a bar on standard error shows the progress; by default for a list of more than 8 photos.

        What is None is the checkpoint's default. Raises `SatError` for a photo that cannot be read and for a wrong
        value.
        """
        generation = self.checkpoint.generation.merge(
            beam_size=beam_size,
            attention_mode=attention_mode,
            length_penalty=length_penalty,
            rerank_weight=rerank_weight,
        )
        one = is_photo(photos)
        if not one and not isinstance(photos, Iterable):
            raise SatError(
                f"{shorten(photos)} is not a photo: give a path, bytes, a file object, a PIL image, an array, a tensor, "
                "or several of them in a list"
            )
        total = 1 if one else len(photos) if isinstance(photos, Sized) else None
        bar = progress_bar(total, show=progress if progress is not None else (total or 0) > FEW)
        found: list[Caption | None] = []
        skipped: list[str] = []
        with bar:
            for caption in self.stream(
                [photos] if one else photos,
                generation,
                sampling=sampling,
                num_captions=num_captions,
                seed=seed,
                batch_size=batch_size,
                errors=errors,
            ):
                if isinstance(caption, SatError):
                    skipped.append(str(caption))
                found.append(None if isinstance(caption, SatError) else caption)
                bar.update()
        if skipped:
            warnings.warn(
                f"{len(skipped)} of {plural(len(found), 'photo')} skipped: {first_three(skipped)}", stacklevel=2
            )
        return found[0] if one else found

    def stream(
        self,
        photos: Iterable[Photo],
        generation: GenerationConfig,
        *,
        sampling: "Sampling | None" = None,
        num_captions: int | None = None,
        seed: int = 0,
        batch_size: int = 8,
        errors: Literal["raise", "skip"] = "raise",
    ) -> Iterator[Caption | SatError]:
        """Caption photos as they are asked for, ``batch_size`` at a time.

        With errors "skip", a photo that cannot be read gives its `SatError` in place of a caption. Raises `SatError`
        for such a photo otherwise, for a wrong value, and when the decoding uses a reranker and the model has none.
        ``num_captions`` is as in `__call__`.
        """
        if is_photo(photos):
            raise SatError(f"{shorten(photos)} is one photo: give several of them, in a list for example")
        if not isinstance(generation, GenerationConfig):
            raise SatError(f"decoding is {shorten(generation)}: give Decoding(beam=5), for example")
        if errors not in ("raise", "skip"):
            raise SatError(f"errors is {errors!r}: give 'raise' or 'skip'")
        self.check_generation(generation)
        num_captions = checked_num_captions(num_captions, generation, sampling)
        seed = whole("seed", seed)
        batch_size = whole("batch_size", batch_size, least=1)
        if sampling is not None and not isinstance(sampling, Sampling):
            raise SatError(f"sampling is {shorten(sampling)}: give Sampling(temperature=0.7), for example")
        waiting = iter(photos)
        while batch := [self._prepared(photo, errors) for photo in islice(waiting, batch_size)]:
            good = [photo for photo in batch if isinstance(photo, _Prepared)]
            captions: list[Caption] = []
            if good:
                found = self.search(
                    self.encode(np.stack([photo.pixels for photo in good])),
                    generation,
                    sampling=sampling,
                    seeds=[photo_seed(seed, photo.pixels.tobytes()) for photo in good],
                )
                for photo, hypotheses in zip(good, found, strict=True):
                    if num_captions is not None:
                        ranking = generation.length_penalty, generation.rerank_weight
                        hypotheses = different(hypotheses, num_captions, *ranking)
                    caption = self.caption_of(
                        hypotheses, generation, sampling, seed, size=photo.size, source=photo.source
                    )
                    made = (
                        caption.settings if num_captions is None else {**caption.settings, "num_captions": num_captions}
                    )
                    captions.append(dataclasses.replace(caption, settings=made, kept=photo.kept))
            rest = iter(captions)
            yield from (next(rest) if isinstance(photo, _Prepared) else photo for photo in batch)

    def _prepared(self, photo: Photo, errors: Literal["raise", "skip"]) -> "_Prepared | SatError":
        """What is needed of a photo, without holding it."""
        try:
            image = open_photo(photo)
        except SatError as error:
            if errors == "raise":
                raise
            return error.with_traceback(None)  # which would hold the photo
        pixels, size = self.encoder.preprocessing.pixels(image), image.size
        if isinstance(photo, (str, os.PathLike)):
            path = os.fsdecode(photo)
            return _Prepared(pixels, size, path, Path(path).absolute())
        if max(size) > KEPT:
            image.thumbnail((KEPT, KEPT), Image.Resampling.LANCZOS)
        return _Prepared(pixels, size, None, image)

    def search(
        self,
        annotations: "Tensor",
        generation: GenerationConfig,
        *,
        sampling: "Sampling | None" = None,
        seeds: list[int],
        attention_mode: "AttentionMode | None" = None,
    ) -> list[list[Hypothesis]]:
        """Search captions for annotations (B, L, D), best first for each; ``seeds`` has one for each photo.

        The best caption has its doubt, unless it was drawn at random.

        ``attention_mode`` is another look than the decoding's, made for these photos and paths; then all are searched at once.
        Raises `SatError` when the decoding uses a reranker and the model has none.
        """
        self.check_generation(generation)
        paths = generation.beam_size if sampling is None else sampling.captions
        together = search_batch_size(paths, self.device) if attention_mode is None else max(1, len(annotations))
        found = []
        for start in range(0, len(annotations), together):
            part = slice(start, start + together)
            found += self._searched(annotations[part], generation, sampling, seeds[part], attention_mode)
        if sampling is not None:
            return found
        if self.reranker is not None:
            found = self.reranker.add_rerank_scores(annotations, found, generation.rare_word_exponent)
            found = [ranked(each, generation.length_penalty, generation.rerank_weight) for each in found]
        return found if self.checkpoint.doubt is None else self.checkpoint.doubt.add_doubt(annotations, found)

    def _searched(
        self,
        annotations: "Tensor",
        generation: GenerationConfig,
        sampling: "Sampling | None",
        seeds: list[int],
        attention_mode: "AttentionMode | None",
    ) -> list[list[Hypothesis]]:
        """What `search` finds of photos that are searched at once, before the reranker."""
        how: dict[str, Any] = {"max_length": generation.max_length, "allow_repetitions": generation.allow_repetitions}
        if sampling is not None:
            session = self._session(
                annotations, generation.attention_mode, seeds, sampling.captions, generation.max_length, attention_mode
            )
            narrowing: dict[str, Any] = {
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
            }
            return draw(session, seeds=[seed + 1 for seed in seeds], **narrowing, **how)  # apart from the places' seeds
        how |= {"beam_size": generation.beam_size, "length_penalty": generation.length_penalty}
        if isinstance(self.decoder, OnnxDecoder):
            session = self._session(
                annotations, generation.attention_mode, seeds, generation.beam_size, generation.max_length, whole=False
            )
            return search(session, **how)
        attention_mode = attention_mode or self._look(
            generation.attention_mode, seeds, generation.beam_size, generation.max_length
        )
        found: list[list[Hypothesis]] = self.beam_search(
            self.decoder, annotations, attention_mode=attention_mode, **how
        )
        return found

    def _session(
        self,
        annotations: Any,
        name: AttentionModeName,
        seeds: list[int],
        paths: int,
        steps: int,
        attention_mode: "AttentionMode | None" = None,
        *,
        whole: bool = True,
    ) -> Any:
        """The decoder on its way along paths of photos (B, L, D), with the look of that name or the one given."""
        if isinstance(self.decoder, OnnxDecoder):
            sampled = seeds if name == "sample" else []
            return OnnxSession(
                self.decoder, annotations, attention_mode=name, paths=paths, seeds=sampled, steps=steps, whole=whole
            )
        from show_attend_tell.backends.session import TorchSession

        attention_mode = attention_mode or self._look(name, seeds, paths, steps)
        return TorchSession(self.decoder, annotations, paths=paths, mode=attention_mode)

    def _look(self, name: str, seeds: list[int], paths: int, steps: int) -> "AttentionMode":
        from show_attend_tell.model.attention import attention_mode_by_name

        return attention_mode_by_name(name, seeds=seeds, paths=paths, steps=steps, device=self.device)

    def check_generation(self, generation: GenerationConfig) -> None:
        """Raise `SatError` when the decoding uses a reranker or attention, and the model has none."""
        if generation.attention_mode != "mean" and not self.decoder.attends:
            raise SatError(
                f"look is {generation.attention_mode}, and {self.name} has no attention to choose places by: leave it out"
            )
        if generation.rerank_weight and self.reranker is None:
            raise SatError(f"rerank_weight is {generation.rerank_weight:g}, and {self.name} has no reranker: give 0")

    def check_attention(self) -> None:
        """Raise `SatError` for a model without attention, or one that looks at all places alike."""
        if not self.decoder.attends:
            raise SatError(f"{self.name} has no attention: give a model with soft or hard attention")

    def caption_of(
        self,
        hypotheses: list[Hypothesis],
        generation: GenerationConfig,
        sampling: "Sampling | None",
        seed: int,
        *,
        size: tuple[int, int] | None,
        source: str | None,
    ) -> Caption:
        """The caption of the best hypothesis, without its photo.

        ``size`` is the photo's width and height in pixels. Without it, the part that the encoder saw is not known.
        """
        best, vocabulary = hypotheses[0], self.checkpoint.vocabulary
        rows, columns = self.checkpoint.encoder.grid
        attention, locations = as_array(best.alpha), as_array(best.locations)
        made: dict[str, Any] = {"model": self.name, "attention_mode": generation.attention_mode}
        if vocabulary.tokenizer != KARPATHY:
            made["tokenizer"] = vocabulary.tokenizer.name
        if sampling is None:
            made |= {"beam_size": generation.beam_size, "length_penalty": generation.length_penalty}
            if self.reranker is not None:
                made |= {"rerank_weight": generation.rerank_weight, "rare_word_exponent": generation.rare_word_exponent}
        else:
            made |= {"sampling": dataclasses.asdict(sampling)}
        if sampling is not None or generation.attention_mode == "sample":
            made["seed"] = seed
        return Caption(
            words=vocabulary.decode(best.words),
            log_probability=best.log_probability,
            attention=None if attention is None else attention.reshape(-1, rows, columns),
            gate=as_array(best.beta),
            locations=None if locations is None else np.stack([locations // columns, locations % columns], axis=1),
            rerank_score=best.rerank_score,
            doubt=best.doubt,
            complete=best.ended,
            alternatives=[(vocabulary.text(h.words), h.log_probability) for h in hypotheses[1:]],
            settings=made,
            source=source,
            size=size,
            visible_box=None if size is None else self.encoder.preprocessing.seen(*size),
        )

    def explain(
        self, photo: Photo, caption: str, *, attention_mode: AttentionModeName | None = None, seed: int = 0
    ) -> Caption:
        """Tell the model a caption of a photo, word by word, and return where it looked at each word.

        The caption is tokenized as training captions were; a word that the model does not know counts as ``<unk>``.
        ``attention_mode`` is the checkpoint's unless given. With look "sampled", ``seed`` and the photo's pixels draw the places.
        Raises `SatError` for a caption without a word.
        """
        seed = whole("seed", seed)
        prepared = self._prepared(photo, "raise")
        assert isinstance(prepared, _Prepared)
        annotations = self.encode(prepared.pixels[None])
        generation = self.checkpoint.generation.merge(attention_mode=attention_mode)
        own_seed = photo_seed(seed, prepared.pixels.tobytes())
        told = self.explain_annotations(annotations, caption, attention_mode=generation.attention_mode, seed=own_seed)
        made = self.caption_of([told], generation, None, seed, size=prepared.size, source=prepared.source)
        kept = ("model", "attention_mode", "tokenizer", "seed")
        settings = {name: value for name, value in made.settings.items() if name in kept}
        return dataclasses.replace(made, settings=settings, kept=prepared.kept)

    def log_probability(
        self, photo: Photo, caption: str, *, attention_mode: AttentionModeName | None = None, seed: int = 0
    ) -> float:
        """log p(caption | photo) in nats, end token included, as `explain` gives it.

        With look "sampled" it is that of one sampled sequence of places.
        """
        return self.explain(photo, caption, attention_mode=attention_mode, seed=seed).log_probability

    def explain_annotations(
        self, annotations: "Tensor", caption: str, *, attention_mode: AttentionModeName, seed: int
    ) -> Hypothesis:
        """`explain` for annotations (1, L, D), with the photo's own seed."""
        words = self.checkpoint.vocabulary.tokenizer.words(caption) if isinstance(caption, str) else []
        if not words:
            raise SatError(f"caption {shorten(caption)} has no word in it: give a text with at least one")
        ids = self.checkpoint.vocabulary.encode(words)
        return teacher_forced(self._session(annotations, attention_mode, [seed], 1, len(ids)), ids)


class _Processor(NamedTuple):
    """Where ONNX Runtime computes: what stands for a device of PyTorch."""

    type: str = "cpu"


CPU = _Processor()


class _Prepared(NamedTuple):
    """A photo that waits to be captioned."""

    pixels: NDArray[np.float32]  # (3, S, S), the encoder's square
    size: tuple[int, int]  # of the photo, width and height
    source: str | None
    kept: Path | Image.Image


def progress_bar(total: int | None, *, show: bool) -> Progress:
    """A bar on standard error that says "12 of 30 photos"."""
    form: dict[str, Any] = {} if total is None else {"bar_format": PROGRESS}
    return Progress(total=total, desc="photos", disable=not show, unit="photo", **form)


def path_of(path: object) -> Path:
    """A path. Raises `SatError` for what is not one."""
    if not isinstance(path, (str, os.PathLike)):
        raise SatError(f"{shorten(path)} is not a path: give a text or a pathlib.Path")
    return Path(os.fsdecode(path))


def whole(name: str, value: object, *, least: int | None = None) -> int:
    """A whole number, of Python or NumPy. Raises `SatError` for any other value, and for one below the least."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or (least is not None and value < least):  # type: ignore[operator]
        at_least = "" if least is None else f" of at least {least}"
        raise SatError(f"{name} is {shorten(value)}: give a whole number{at_least}")
    return int(value)  # type: ignore[call-overload,no-any-return]


def checked_num_captions(num_captions: object, generation: GenerationConfig, sampling: "Sampling | None") -> int | None:
    """A number of captions; raises `SatError` for one that a search with that decoding cannot give."""
    if num_captions is None:
        return None
    num_captions = whole("num_captions", num_captions, least=1)
    if sampling is not None:
        raise SatError(
            f"several is {num_captions}, and words are drawn at random: give Sampling(captions={num_captions})"
        )
    if num_captions > generation.beam_size:
        raise SatError(
            f"several is {num_captions}, and a beam of {generation.beam_size} finds {generation.beam_size}: give a wider beam"
        )
    return num_captions


@settings
class Sampling:
    """Words drawn from the model's distribution, instead of a search for the likeliest.

    Raises `SatError` for wrong values.
    """

    captions: Count = 1  # per photo
    temperature: Rate = 1.0  # below 1, likely words become likelier
    top_k: CountOrNone = 0  # number of words to choose from, the likeliest; 0: all
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0  # total probability of the words to choose from, the likeliest


def photo_seed(seed: int, identity: bytes) -> int:
    """A seed for one photo, from the user's seed and what identifies the photo.

    32 bits of a hash of both: PyTorch's generator on a CPU ignores the higher bits of a seed.
    """
    return int.from_bytes(hashlib.sha256(f"{seed} ".encode() + identity).digest()[:4])
