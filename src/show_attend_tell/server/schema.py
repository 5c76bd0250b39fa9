"""What requests and answers look like; the OpenAPI document is made of these."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from show_attend_tell.server.limits import Limits
from show_attend_tell.settings import AttentionModeName

MOST_BEAM = 100
MOST_CAPTIONS = 20  # scored for each photo of a request
LONGEST_CAPTION = 400  # characters of a caption to be scored


def listed(value: Any) -> Any:
    """A field that came once as the list that it would be had it come twice."""
    return [value] if isinstance(value, str) else value


def true_or_false(value: Any) -> Any:
    """A boolean field of a form; what is neither stays as it is, to be refused."""
    return value == "true" if value in ("true", "false") else value


Names = Annotated[list[str], Field(min_length=1, max_length=8)]
A_WORD = r"[^\s\-–—.,;!?'\"‘’“”…]"  # a character of which `tokenizers.tokenize` leaves something
Text = Annotated[str, Field(max_length=LONGEST_CAPTION, json_schema_extra={"pattern": A_WORD})]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_CAPTIONS)]
AttentionModeField = Annotated[
    AttentionModeName | None,
    Field(
        description="How attention is read: `expectation` (the mean over all places, weighted by α), `likeliest` (the "
        "place with the largest α) or `sampled` (a place drawn at random by α). Default: the model's."
    ),
]


class Fields(BaseModel):
    """The fields of a form beside its photos; a field that is not listed is refused."""

    model_config = ConfigDict(extra="forbid")


class CaptionFields(Fields):
    """How to caption the photos."""

    model: Annotated[
        Names | None,
        BeforeValidator(listed),
        Field(description="Names of one or several models. Default: the first model served."),
    ] = None
    beam_size: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_BEAM,
            description="Width of the beam search; 1 is greedy search. Default: the model's.",
            examples=[5],
        ),
    ] = None
    attention_mode: AttentionModeField = None
    attention: Annotated[
        bool,
        BeforeValidator(true_or_false),
        Field(strict=True, description="Whether the answer holds α, the attention map of each word."),
    ] = True
    format: Annotated[
        Literal["json", "png", "html"],
        Field(description="Form of the answer: JSON, a picture (of one photo), or a page to explore the captions in."),
    ] = "json"


class ScoreFields(Fields):
    """Which captions to score, and with which model."""

    captions: Annotated[
        Texts,
        BeforeValidator(listed),
        Field(description="Captions to score. Each caption is scored for each photo."),
    ]
    model: Annotated[str | None, Field(description="Name of a model. Default: the first model served.")] = None
    attention_mode: AttentionModeField = None


def request_body(fields: type[Fields], limits: Limits, models: Sequence[str]) -> dict[str, Any]:
    """The OpenAPI description of a form with photos, for these models."""
    schema = fields.model_json_schema()
    for field in schema["properties"].values():  # a form has no null: a field is there or not
        if "anyOf" in field:
            (kind,) = (kind for kind in field.pop("anyOf") if kind != {"type": "null"})
            field |= kind
            del field["default"]
    named = schema["properties"]["model"]
    named.get("items", named)["enum"] = list(models)
    file = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}
    photos = {"type": "array", "items": file, "minItems": 1, "maxItems": limits.request_photos}
    schema["properties"] = {"photos": {**photos, "description": "Photos, as files."}, **schema["properties"]}
    schema["required"] = ["photos", *schema.get("required", [])]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


class Alternative(BaseModel):
    """Another caption that the beam search found."""

    caption: str
    log_probability: float


class CaptionAnswer(BaseModel):
    """A caption and the evidence for it."""

    source: Annotated[str | None, Field(description="The photo's file name, if it came with one.")]
    caption: str
    words: Annotated[list[str], Field(description="The T words of the caption, without the end token.")]
    log_probability: Annotated[
        float, Field(description="log p(caption | photo) in nats, end token included, with the look in `settings`.")
    ]
    complete: Annotated[bool, Field(description="False if the caption was cut off at the greatest length.")]
    attention: Annotated[
        list[list[list[float]]] | None, Field(description="α: T × rows × columns. Each word's map sums to one.")
    ]
    gate: Annotated[
        list[float] | None, Field(description="β, how much each word relied on the photo: T numbers from 0 to 1.")
    ]
    locations: Annotated[
        list[tuple[int, int]] | None,
        Field(description="The row and column that each word looked at. Null for the look `expectation`."),
    ]
    rerank_score: Annotated[
        float | None,
        Field(
            description="How well the caption agrees with the words that the photo is expected to be described with, "
            "from 0. Null for a model without a reranker."
        ),
    ]
    doubt: Annotated[
        float | None,
        Field(
            description="How unlike the training photos this photo is, and how unlikely its caption, from 0 to 1: the "
            "share of known photos that are less strange. Null for a model without a scale of doubt."
        ),
    ]
    unsure: Annotated[bool, Field(description="Whether the doubt is above 0.95.")]
    alternatives: Annotated[
        list[Alternative], Field(description="The other captions that the beam search found, best first.")
    ]
    size: Annotated[tuple[int, int] | None, Field(description="The upright photo's width and height in pixels.")]
    seen: Annotated[
        tuple[float, float, float, float] | None,
        Field(description="The part of the upright photo that the encoder saw: left, top, right and bottom in pixels."),
    ]
    settings: dict[str, Any]


class ScoredCaption(BaseModel):
    """A caption that was given, and its log-probability."""

    caption: str
    words: Annotated[list[str], Field(description="The caption as the model reads it.")]
    unknown: Annotated[list[str], Field(description="The words that the model does not know.")]
    log_probability: Annotated[float, Field(description="log p(caption | photo) in nats, end token included.")]


class ScoresAnswer(BaseModel):
    """The captions' log-probabilities for one photo."""

    source: str | None
    model: str
    attention_mode: AttentionModeName
    captions: list[ScoredCaption]


class ModelAnswer(BaseModel):
    """A model that is served."""

    name: str
    attention: Annotated[str, Field(description="soft, hard, uniform or none")]
    words: Annotated[int, Field(description="Size of the vocabulary.")]
    generation: Annotated[
        dict[str, Any], Field(description="Default settings of the search. The scores were made with them.")
    ]
    training: dict[str, Any]
    scores: Annotated[dict[str, Any], Field(description="Scores by split of the data.")]
    card: Annotated[str, Field(description="The model's card, in Markdown.")]


class ModelsAnswer(BaseModel):
    """The models that are served, and the limits of a request."""

    models: Annotated[list[ModelAnswer], Field(description="The first is the default.")]
    limits: Annotated[dict[str, float], Field(description="Limits of a request, by name.")]


class HealthAnswer(BaseModel):
    """The server works."""

    status: Literal["ok"]
    waiting: Annotated[int, Field(description="Photos that wait for a model.")]


PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong and what to do."},
        "limit": {"type": "string", "description": "The name of the limit, if one was reached."},
        "maximum": {"type": "number", "description": "Its value."},
    },
}
REFUSALS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "The request came through another site or name.",
    413: "A size or number is over its limit.",
    415: "The body is not a form, or a file is not a photo.",
    422: "A field or a photo cannot be used.",
    500: "A fault of the server.",
    503: "The server is busy. Retry-After says when to try again, in seconds.",
    504: "The request took longer than the limit.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of refusals."""
    return {
        status: {
            "description": REFUSALS[status],
            "content": {"application/problem+json": {"schema": PROBLEM}},
        }
        for status in statuses
    }


CAPTIONS: dict[str, Any] = {
    "description": "The captions, in the format that was asked for.",
    "content": {
        "image/png": {"schema": {"type": "string", "contentMediaType": "image/png"}},
        "text/html": {"schema": {"type": "string"}},
    },
}
