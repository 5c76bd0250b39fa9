"""What requests and answers look like; the OpenAPI document is made of these."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from show_attend_tell.model.attention import LookName
from show_attend_tell.server.limits import LONGEST_CAPTION, MOST_BEAM, MOST_CAPTIONS, Limits


def one_or_several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


# A photo of one grey pixel.
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGOoBwAAgQCA05RTSgAAAABJRU5ErkJggg=="
File = Annotated[bytes, WithJsonSchema({"type": "string", "contentMediaType": "application/octet-stream"})]
Base64 = Annotated[str, WithJsonSchema({"type": "string", "contentEncoding": "base64", "examples": [DOT]})]
Names = Annotated[list[str], Field(min_length=1, max_length=8)]
A_WORD = r"[^\s\-–—.,;!?'\"‘’“”…]"  # what `vocabulary.tokenise` leaves something of
Text = Annotated[str, Field(max_length=LONGEST_CAPTION, json_schema_extra={"pattern": A_WORD})]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_CAPTIONS)]
LookField = Annotated[
    LookName | None,
    Field(description="By the mean over all places, at the one likeliest, or at one drawn by α. Default: the model's."),
]


class Fields(BaseModel):
    """What both kinds of request have in common; a field that is not listed is refused."""

    model_config = ConfigDict(extra="forbid")


class CaptionFields(Fields):
    """How photos are to be captioned, all of it optional."""

    model: Annotated[
        Names | None,
        BeforeValidator(one_or_several, json_schema_input_type=str | Names | None),
        Field(description="One or several models, by name. Default: the first served."),
    ] = None
    beam: Annotated[
        int | None, Field(ge=1, le=MOST_BEAM, description="Width of the beam; 1 is greedy. Default: the model's.")
    ] = None
    look: LookField = None
    attention: Annotated[bool, Field(description="Whether α, the map of each word, is in the answer.")] = True
    format: Annotated[
        Literal["json", "png", "html"],
        Field(description="The captions as JSON, a picture of one photo's, or the viewer's page."),
    ] = "json"


class ScoreFields(Fields):
    """Which captions are to be scored, by which model."""

    captions: Annotated[
        Texts,
        BeforeValidator(one_or_several, json_schema_input_type=Text | Texts),
        Field(description="Captions, each scored for each photo."),
    ]
    model: Annotated[str | None, Field(description="A model, by name. Default: the first served.")] = None
    look: LookField = None


class CaptionsJSON(CaptionFields):
    """`CaptionFields` with the photos, as JSON holds them."""

    photos: Annotated[list[Base64], Field(description="Photos in base64, or data: URLs.")]


class ScoresJSON(ScoreFields):
    """`ScoreFields` with the photos, as JSON holds them."""

    photos: Annotated[list[Base64], Field(description="Photos in base64, or data: URLs.")]


class CaptionsForm(CaptionFields):
    """`CaptionFields` with the photos, as a form holds them."""

    photos: Annotated[list[File], Field(description="Photos, as files.")]


class ScoresForm(ScoreFields):
    """`ScoreFields` with the photos, as a form holds them."""

    photos: Annotated[list[File], Field(description="Photos, as files.")]


def request_body(form: type[Fields], body: type[Fields], limits: Limits, models: Sequence[str]) -> dict[str, Any]:
    """The OpenAPI description of a request that may be a form or JSON, about these models."""

    def described(fields: type[Fields]) -> dict[str, Any]:
        schema = fields.model_json_schema()
        for kind in schema["properties"]["model"]["anyOf"]:
            if kind["type"] != "null":
                kind.get("items", kind)["enum"] = list(models)
        schema["properties"]["photos"] |= {"minItems": 1, "maxItems": limits.request_photos}
        return {"schema": schema}

    return {
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": described(form), "application/json": described(body)},
        }
    }


class Alternative(BaseModel):
    """Another caption of the beam."""

    caption: str
    log_probability: float


class CaptionAnswer(BaseModel):
    """A caption and the evidence for it: `Caption.to_dict`."""

    source: Annotated[str | None, Field(description="The photo's file name, where it came with one.")]
    caption: str
    words: Annotated[list[str], Field(description="T words, the end token excluded.")]
    log_probability: Annotated[
        float, Field(description="Natural logarithm, the end token included, by the look of `settings`.")
    ]
    complete: Annotated[bool, Field(description="False when the longest length came before the caption's end.")]
    attention: Annotated[
        list[list[list[float]]] | None, Field(description="α: T × rows × columns, each word's map sums to one.")
    ]
    gate: Annotated[list[float] | None, Field(description="β: T numbers from 0 to 1.")]
    places: Annotated[list[tuple[int, int]] | None, Field(description="The row and column each word looked at.")]
    agreement: Annotated[
        float | None,
        Field(description="With the words that its captions are expected to have, 0 to about 1, or null."),
    ]
    alternatives: Annotated[list[Alternative], Field(description="The beam's other captions, best first.")]
    seen: Annotated[
        tuple[float, float, float, float] | None,
        Field(description="Left, top, right, bottom: the part of the upright photo the encoder saw, in its pixels."),
    ]
    settings: dict[str, Any]


class ScoredCaption(BaseModel):
    """A caption that was given, and its log-probability."""

    caption: str
    words: Annotated[list[str], Field(description="The caption as the model takes it.")]
    unknown: Annotated[list[str], Field(description="Those of its words that the model does not know.")]
    log_probability: Annotated[float, Field(description="log p(caption | photo) in nats, the end token included.")]


class ScoresAnswer(BaseModel):
    """The captions' log-probabilities for one photo."""

    source: str | None
    model: str
    look: LookName
    captions: list[ScoredCaption]


class ModelAnswer(BaseModel):
    """A model that is served."""

    name: str
    attention: Annotated[str, Field(description="soft or hard")]
    words: Annotated[int, Field(description="The size of its vocabulary.")]
    decoding: Annotated[dict[str, Any], Field(description="Its defaults, which its scores were made with.")]
    training: dict[str, Any]
    scores: Annotated[dict[str, Any], Field(description="By split.")]
    card: Annotated[str, Field(description="The model's card, in Markdown.")]


class ModelsAnswer(BaseModel):
    """What is served, and within which limits."""

    models: Annotated[list[ModelAnswer], Field(description="The first is the default.")]
    limits: Annotated[dict[str, float], Field(description="What one request may ask for.")]


class HealthAnswer(BaseModel):
    """The server captions."""

    status: Literal["ok"]
    waiting: Annotated[int, Field(description="Photos that wait for a model.")]


PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence: what was wrong, and what to do."},
        "limit": {"type": "string", "description": "The limit that was met, where it was one."},
        "maximum": {"type": "number", "description": "Its value."},
    },
}
REFUSALS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "Asked through another site.",
    413: "A limit on size or number was passed.",
    415: "Neither a form nor JSON, or not a photo.",
    422: "A field or a photo cannot be used.",
    500: "A fault of the server.",
    503: "Busy; Retry-After says when to come back.",
    504: "It took longer than the limit.",
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
