"""What requests and answers look like. The OpenAPI document is made of these; their fields are described here."""

from typing import Annotated, Any, Literal, get_type_hints

from fastapi import UploadFile
from pydantic import BaseModel, ConfigDict, Field, create_model

from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import AttentionModeName, descriptions
from show_attend_tell.show.pictures import Shown
from show_attend_tell.values import Record

MOST_CAPTIONS = 20  # scored for each photo of a request
LONGEST_CAPTION = 400  # characters of a caption to be scored
A_WORD = r"[^\s\-–—.,;!?'\"‘’“”…]"  # a character of which `tokenizers.tokenize` leaves something
Maps = list[list[list[float]]]
SETTINGS = get_type_hints(GenerationConfig, include_extras=True)
del SETTINGS["filters"]  # pairs, which fields of a form cannot hold


def as_form(schema: Record, cls: type) -> None:
    """In a form, a field is there or not, so that none is null."""
    for name, field in schema["properties"].items():
        if name == "photos":
            field["items"]["format"] = "binary"  # by which Swagger UI knows files
        if "anyOf" in field:
            field |= next(kind for kind in field.pop("anyOf") if kind != {"type": "null"})
            field["example"] = field.pop("default", None) or ""  # or Swagger UI would send values of its own


class Described(BaseModel):
    """A model whose fields are described below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class OfPhoto(Described):
    """What is said of a photo."""

    source: str | None
    """the photo's file name, if it came with one"""


class PhotosForm(Described):
    """Photos; a field that is not listed is refused. The default of a setting is the model's own."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=as_form)

    photos: Annotated[list[UploadFile], Field(min_length=1)]
    """photos, as files"""

    def settings(self) -> Record:
        """The settings of `GenerationConfig` that the form has."""
        return self.model_dump(include=set(SETTINGS), exclude_unset=True)


def form_of(*names: str) -> Any:
    """A form with settings of those names, of the types that `GenerationConfig` has."""
    described = descriptions(GenerationConfig)
    fields: Record = {name: (SETTINGS[name] | None, Field(None, description=described[name])) for name in names}
    return create_model("SettingsForm", __base__=PhotosForm, **fields)


class CaptionForm(form_of(*SETTINGS)):  # type: ignore[misc]  # all of them
    """How to caption the photos."""

    model: Annotated[tuple[str, ...], Field(max_length=8)] = ()
    """names of models, see /v1/models; by default the first"""
    evidence: bool = False
    """whether the answer includes the evidence for each word; png and html always show it"""
    attention: bool = True
    """whether the answer includes α, the attention map of each word"""
    shown: Shown = "evidence"
    """what a png shows: which locations supported a word, or its attention"""
    format: Literal["json", "png", "html"] = "json"
    """JSON, a picture (of one photo), or a page to explore captions in"""


class ScoreForm(form_of("attention_mode", "seed")):  # type: ignore[misc]
    """Which captions to score, and with which model."""

    captions: list[Annotated[str, Field(max_length=LONGEST_CAPTION, json_schema_extra={"pattern": A_WORD})]] = Field(
        min_length=1, max_length=MOST_CAPTIONS, description="each is scored for each photo"
    )
    model: str = ""
    """name of a model; by default the first served"""


class HideForm(form_of(*SETTINGS)):  # type: ignore[misc]
    """What to hide of each photo, and how to caption it."""

    model: str = ""
    """name of a model; by default the first served"""
    word: str = ""
    """a word of the caption, or its number from 0"""
    place: str = ""
    """another place: JSON with boxes in pixels, or a mask in the form of the answer's"""


class ProblemAnswer(Described):
    """A refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    """what is wrong and what to do"""
    limit: str | None = None
    """the name of the limit, if one was reached"""
    maximum: float | None = None
    """its value"""


class FailedPhoto(OfPhoto):
    """A photo that cannot be used, in place of its answer."""

    error: ProblemAnswer


class Alternative(Described):
    """Another caption of the beam."""

    caption: str
    log_probability: float


class CaptionAnswer(OfPhoto):
    """A caption and the evidence for it."""

    caption: str
    words: list[str]
    """the T words of the caption, without the end token"""
    log_probability: float
    """log p(caption | photo) in nats, end token included, with the attention mode in `settings`"""
    word_log_probabilities: list[float]
    """log p of each word given those before, T numbers"""
    complete: bool
    """false if the caption was truncated at the maximum length"""
    attention: Maps | None
    """α: T × rows × columns; each word's map sums to one"""
    evidence: Maps | None
    """T × rows × columns: how log p of a word grows with the attention, in nats"""
    gate: list[float] | None
    """β, how much each word relied on the photo: T numbers from 0 to 1"""
    locations: list[tuple[int, int]] | None
    """row and column chosen for each word; null for the attention mode `mean`"""
    rerank_score: float | None
    """from 0: how well the caption agrees with the expected words; null without a reranker"""
    confidence: float | None
    """from 0 to 1: expected share of right nouns; null where the model does not judge words"""
    word_confidence: list[float | None] | None
    """probability that each word is right; null for words not judged"""
    reaches_min_confidence: bool | None
    """whether all judged words reach `min_confidence`; null without one"""
    warning: str | None
    """why the caption is a guess: too few pixels, or an unlike photo"""
    alternatives: list[Alternative]
    """the beam's other captions, best first"""
    size: tuple[int, int] | None
    """the upright photo's width and height in pixels"""
    visible_box: tuple[float, float, float, float] | None
    """what the encoder saw: left, top, right, bottom in pixels"""
    offset: tuple[float, float]
    """where a location looks, down and right of its cell's middle, in cells"""
    settings: Record
    """the model, and how the caption was made"""
    passed_over: str | None = None
    """what of the photo's file is damaged, missing or too large, and was not needed"""


class Variant(Described):
    """The photo with a place hidden, captioned again."""

    caption: str
    mask: list[int]
    """on the `grid` of what the encoder saw, lengths of runs row after row: visible, hidden, visible …"""
    log_p: float | None
    """of the word, given the same words before it; null without a word"""
    verdict: Literal["gone", "stays", "renamed"] | None
    """what became of the word"""
    renamed: str | None
    """its other name"""


class HiddenAnswer(OfPhoto):
    """What came out when a place of a photo was hidden, and the same outline in other places."""

    before: str
    """the caption of the whole photo"""
    word: str | None
    step: int | None
    """the word's number in the caption of the whole photo"""
    lines: list[str]
    """what came out, in sentences"""
    log_p: float | None
    """of the word for the whole photo, in nats"""
    grid: tuple[int, int]
    """rows and columns of the masks"""
    cover: str
    """what hides, as a small picture (a data: URL) of what the encoder saw"""
    here: Variant
    elsewhere: list[Variant]


class ScoredCaption(Described):
    """A caption that was given, and its log-probability."""

    caption: str
    words: list[str]
    """the caption as the model reads it"""
    unknown: list[str]
    """the words that the model does not know"""
    log_probability: float
    """log p(caption | photo) in nats, end token included"""


class ScoresAnswer(OfPhoto):
    """The captions' log-probabilities for one photo."""

    model: str
    attention_mode: AttentionModeName
    captions: list[ScoredCaption]


class ModelAnswer(Described):
    """A model that is served."""

    name: str
    attention: str
    """soft, hard, uniform or none"""
    words: int
    """size of the vocabulary"""
    generation: Record
    """default settings of the search; the scores were made with them"""
    training: Record
    scores: Record
    """scores by split of the data"""
    card: str
    """the model's card, in Markdown"""


class ModelsAnswer(Described):
    """The models that are served, and the limits of a request."""

    models: list[ModelAnswer]
    """the first is the default"""
    limits: dict[str, float]
    """limits of a request, by name"""


class HealthAnswer(Described):
    """The server works."""

    status: Literal["ok"]
    waiting: int
    """photos that wait for a model"""


REFUSALS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "The request came through another site or name.",
    413: "A size or number is over its limit.",
    415: "The body is not a form, or no file is a photo.",
    422: "A field, or every photo, cannot be used.",
    500: "A fault of the server.",
    503: "The server is busy. Retry-After says when to try again, in seconds.",
    504: "The request took longer than the limit.",
}


def refusals(*statuses: int) -> dict[int | str, Record]:
    """The OpenAPI description of refusals."""
    content = {"application/problem+json": {"schema": ProblemAnswer.model_json_schema()}}
    return {status: {"description": REFUSALS[status], "content": content} for status in statuses}


def answers(model: Any, *kinds: str) -> dict[int | str, Record]:
    """The OpenAPI description of answers about photos, in JSON and in other ``kinds`` of content."""
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    failed = "As 200, but a photo that cannot be used has an `error` in place of each of its answers."
    return {
        200: {"model": list[model], "description": "An answer for each photo, in their order.", "content": content},
        207: {"model": list[model | FailedPhoto], "description": failed, "content": content},
        **refusals(400, 413, 415, 422, 500, 503, 504),
    }
