"""What requests and answers look like. The OpenAPI document is made of these; their fields are described here."""

from typing import Annotated, Any, Literal, get_type_hints

from fastapi import UploadFile
from pydantic import BaseModel, ConfigDict, Field, create_model

from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import AttentionModeName, descriptions
from show_attend_tell.show.pictures import Shown

MOST_CAPTIONS = 20  # scored for each photo of a request
LONGEST_CAPTION = 400  # characters of a caption to be scored
A_WORD = r"[^\s\-–—.,;!?'\"‘’“”…]"  # a character of which `tokenizers.tokenize` leaves something
Maps = list[list[list[float]]]
SETTINGS = get_type_hints(GenerationConfig, include_extras=True)
del SETTINGS["filters"]  # pairs, which fields of a form cannot hold


def as_form(schema: dict[str, Any], cls: type) -> None:
    """In a form, a field is there or not, so that none is null."""
    for name, field in schema["properties"].items():
        if name == "photos":
            field["items"]["format"] = "binary"  # by which Swagger UI knows files
        if "anyOf" in field:
            field |= next(kind for kind in field.pop("anyOf") if kind != {"type": "null"})
            field["example"] = field.pop("default", None) or ""  # or Swagger UI would send values of its own


class PhotosForm(BaseModel):
    """Photos; a field that is not listed is refused. The default of a setting is the model's own."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=as_form)

    photos: Annotated[list[UploadFile], Field(min_length=1)] = Field(description="photos, as files")

    def settings(self) -> dict[str, Any]:
        """The settings of `GenerationConfig` that the form has."""
        return self.model_dump(include=set(SETTINGS), exclude_unset=True)


def form_of(*names: str) -> Any:
    """A form with settings of those names, of the types that `GenerationConfig` has."""
    described = descriptions(GenerationConfig)
    fields: dict[str, Any] = {name: (SETTINGS[name] | None, Field(None, description=described[name])) for name in names}
    return create_model("SettingsForm", __base__=PhotosForm, **fields)


class CaptionForm(form_of(*SETTINGS)):  # type: ignore[misc]  # all of them
    """How to caption the photos."""

    model: Annotated[tuple[str, ...], Field(max_length=8)] = Field(
        (), description="names of models, see /v1/models; by default the first"
    )
    evidence: bool = Field(
        False, description="whether the answer holds the evidence of each word; png and html show it in any case"
    )
    attention: bool = Field(True, description="whether the answer holds α, the attention map of each word")
    shown: Shown = Field("evidence", description="what a png shows: which locations supported a word, or its attention")
    format: Literal["json", "png", "html"] = Field(
        "json", description="JSON, a picture (of one photo), or a page to explore captions in"
    )


class ScoreForm(form_of("attention_mode", "seed")):  # type: ignore[misc]
    """Which captions to score, and with which model."""

    captions: list[Annotated[str, Field(max_length=LONGEST_CAPTION, json_schema_extra={"pattern": A_WORD})]] = Field(
        min_length=1, max_length=MOST_CAPTIONS, description="each is scored for each photo"
    )
    model: str = Field("", description="name of a model; by default the first served")


class HideForm(form_of(*SETTINGS)):  # type: ignore[misc]
    """What to hide of each photo, and how to caption it."""

    model: str = Field("", description="name of a model; by default the first served")
    word: str = Field("", description="a word of the caption, or its number from 0")
    place: str = Field("", description="another place: JSON with boxes in pixels, or a mask as the answer has it")


class ProblemAnswer(BaseModel):
    """A refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="what is wrong and what to do")
    limit: str | None = Field(None, description="the name of the limit, if one was reached")
    maximum: float | None = Field(None, description="its value")


class FailedPhoto(BaseModel):
    """A photo that cannot be used, in the place of its answer."""

    source: str | None = Field(description="the photo's file name, if it came with one")
    error: ProblemAnswer


class Alternative(BaseModel):
    """Another caption of the beam, or another sampled one."""

    caption: str
    log_probability: float


class CaptionAnswer(BaseModel):
    """A caption and the evidence for it."""

    source: str | None = Field(description="the photo's file name, if it came with one")
    caption: str
    words: list[str] = Field(description="the T words of the caption, without the end token")
    log_probability: float = Field(
        description="log p(caption | photo) in nats, end token included, with the attention mode in `settings`"
    )
    word_log_probabilities: list[float] = Field(description="log p of each word given those before, T numbers")
    complete: bool = Field(description="false if the caption was truncated at the maximum length")
    attention: Maps | None = Field(description="α: T × rows × columns; each word's map sums to one")
    evidence: Maps | None = Field(
        description="T × rows × columns: how log p of a word grows with the attention, in nats"
    )
    gate: list[float] | None = Field(description="β, how much each word relied on the photo: T numbers from 0 to 1")
    locations: list[tuple[int, int]] | None = Field(
        description="row and column chosen for each word; null for the attention mode `mean`"
    )
    rerank_score: float | None = Field(
        description="from 0: how well the caption has the words that are expected; null without reranker"
    )
    confidence: float | None = Field(
        description="from 0 to 1: expected share of right nouns; null where the model does not judge words"
    )
    word_confidence: list[float | None] | None = Field(
        description="probability that each word is right; null for words not judged"
    )
    reaches_min_confidence: bool | None = Field(
        description="whether all judged words reach `min_confidence`; null without one"
    )
    alternatives: list[Alternative] = Field(
        description="the beam's other captions, best first, or the other sampled ones"
    )
    size: tuple[int, int] | None = Field(description="the upright photo's width and height in pixels")
    visible_box: tuple[float, float, float, float] | None = Field(
        description="what the encoder saw: left, top, right, bottom in pixels"
    )
    offset: tuple[float, float] = Field(
        description="where a location looks, down and right of its cell's middle, in cells"
    )
    settings: dict[str, Any] = Field(description="the model, and how the caption was made")
    passed_over: str | None = Field(
        None, description="what of the photo's file is damaged, missing or too large, and was not needed"
    )


class Variant(BaseModel):
    """The photo with a place hidden, captioned again."""

    caption: str
    mask: list[int] = Field(
        description="on the `grid` of what the encoder saw, lengths of runs row after row: visible, hidden, visible …"
    )
    log_p: float | None = Field(description="of the word, given the same words before it; null without a word")
    verdict: Literal["gone", "stays", "renamed"] | None = Field(description="what became of the word")
    renamed: str | None = Field(description="its other name")


class HiddenAnswer(BaseModel):
    """What came out when a place of a photo was hidden, and the same outline in other places."""

    source: str | None = Field(description="the photo's file name, if it came with one")
    before: str = Field(description="the caption of the whole photo")
    word: str | None
    step: int | None = Field(description="the word's number in the caption of the whole photo")
    lines: list[str] = Field(description="what came out, in sentences")
    log_p: float | None = Field(description="of the word for the whole photo, in nats")
    grid: tuple[int, int] = Field(description="rows and columns of the masks")
    cover: str = Field(description="what hides, as a small picture (a data: URL) of what the encoder saw")
    here: Variant
    elsewhere: list[Variant]


class ScoredCaption(BaseModel):
    """A caption that was given, and its log-probability."""

    caption: str
    words: list[str] = Field(description="the caption as the model reads it")
    unknown: list[str] = Field(description="the words that the model does not know")
    log_probability: float = Field(description="log p(caption | photo) in nats, end token included")


class ScoresAnswer(BaseModel):
    """The captions' log-probabilities for one photo."""

    source: str | None = Field(description="the photo's file name, if it came with one")
    model: str
    attention_mode: AttentionModeName
    captions: list[ScoredCaption]


class ModelAnswer(BaseModel):
    """A model that is served."""

    name: str
    attention: str = Field(description="soft, hard, uniform or none")
    words: int = Field(description="size of the vocabulary")
    generation: dict[str, Any] = Field(description="default settings of the search; the scores were made with them")
    training: dict[str, Any]
    scores: dict[str, Any] = Field(description="scores by split of the data")
    card: str = Field(description="the model's card, in Markdown")


class ModelsAnswer(BaseModel):
    """The models that are served, and the limits of a request."""

    models: list[ModelAnswer] = Field(description="the first is the default")
    limits: dict[str, float] = Field(description="limits of a request, by name")


class HealthAnswer(BaseModel):
    """The server works."""

    status: Literal["ok"]
    waiting: int = Field(description="photos that wait for a model")


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


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of refusals."""
    content = {"application/problem+json": {"schema": ProblemAnswer.model_json_schema()}}
    return {status: {"description": REFUSALS[status], "content": content} for status in statuses}


def answers(model: Any, *kinds: str) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of answers about photos, in JSON and in other ``kinds`` of content."""
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    failed = "As 200, but a photo that cannot be used has its `error` in the place of each of its answers."
    return {
        200: {"model": list[model], "description": "An answer for each photo, in their order.", "content": content},
        207: {"model": list[model | FailedPhoto], "description": failed, "content": content},
        **refusals(400, 413, 415, 422, 500, 503, 504),
    }
