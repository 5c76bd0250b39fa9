"""The app: what can be asked over HTTP, the web app, and the API's manual."""

import asyncio
import dataclasses
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from show_attend_tell import __version__
from show_attend_tell.caption import Caption
from show_attend_tell.captioner import Captioner
from show_attend_tell.errors import SatError
from show_attend_tell.server import schema
from show_attend_tell.server.guard import Guard
from show_attend_tell.server.limits import Limits, Problem
from show_attend_tell.server.queue import Photo
from show_attend_tell.server.service import Service
from show_attend_tell.show import page

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SWAGGER = "/static/swagger-ui"  # where the files of Swagger UI are, which show the API's manual

ABOUT = """Captions of photos. For each word, the answer says where the model looked (α) and how much the word relied
on the photo (β).

Send photos as files of a form (`multipart/form-data`), under the name `photos`. A body in JSON is not accepted.

    curl -F photos=@dog.jpg -F beam=5 -F attention=false {server}/v1/captions
    curl -F photos=@dog.jpg -F format=png -o caption.png {server}/v1/captions
    curl -F photos=@dog.jpg -F "captions=a dog runs" -F "captions=a cat sleeps" {server}/v1/log-probabilities
    curl {server}/v1/models

If the server asks for a token, add `-H "Authorization: Bearer TOKEN"`.

Every refusal is a JSON object (RFC 9457) whose `detail` says what is wrong and what to do.

[Open the web app](/)
"""


def make_app(captioners: Sequence[Captioner], *, limits: Limits | None = None, token: str | None = None) -> Guard:
    """The ASGI app that serves these models; the first answers when a request names none.

    With a ``token`` every request under /v1/ must bring it; without one the app answers this machine alone. The models'
    thread starts here. It ends with the app's lifespan, when all that waits is done. Raises `SatError` when there is no
    model, or when two have the same name.
    """
    service = Service(captioners, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.stop)  # aside, so that the last answers are sent meanwhile

    app = FastAPI(
        title="Show, Attend and Tell",
        version=__version__,
        openapi_url=None,  # `pages` serves these three: the document says its own address, and no script comes from
        docs_url=None,  # another host
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={
            Problem: on_problem,
            SatError: on_sat_error,
            HTTPException: on_http_exception,
            Exception: on_fault,
        },
    )
    app.include_router(api(service, token))
    app.include_router(pages(app))
    app.mount(SWAGGER, StaticFiles(packages=[("fastapi_offline", "static")]))
    return Guard(app, token=token, close=service.close)


async def on_problem(request: Request, problem: Any) -> Response:
    """A refusal of ours."""
    answer: Response = problem.answer()
    return answer


async def on_sat_error(request: Request, error: Exception) -> Response:
    """A request that a model cannot fulfil, such as a picture of attention by a model without attention."""
    return Problem(422, f"{error}.").answer()


async def on_http_exception(request: Request, error: Any) -> Response:
    """A refusal by the framework: no such path, no such method."""
    return Problem(error.status_code, f"{error.detail}: see /docs.", headers=error.headers).answer()


async def on_fault(request: Request, error: Exception) -> Response:
    """A fault of the program.

    uvicorn logs the traceback, which holds no photo, and closes the connection. The answer says so, because a client
    would otherwise send its next request into a closed connection.
    """
    detail = f"The server has a fault ({type(error).__name__}). Its log tells more."
    return Problem(500, detail, headers={"Connection": "close"}).answer()


def api(service: Service, token: str | None) -> APIRouter:
    """The paths for programs."""
    router = APIRouter()
    v1 = APIRouter(
        prefix="/v1",
        responses=schema.refusals(401, 403) if token else schema.refusals(403),
        dependencies=[Depends(HTTPBearer(auto_error=False))] if token else [],  # said in the OpenAPI; `Guard` checks
    )
    names, limits = list(service.captioners), service.limits
    refused = schema.refusals(400, 413, 415, 422, 500, 503, 504)

    @v1.post(
        "/captions",
        tags=["Photos"],
        summary="Caption photos",
        response_model=list[schema.CaptionAnswer],
        responses={200: schema.CAPTIONS, **refused},
        openapi_extra=schema.request_body(schema.CaptionFields, limits, names),
    )
    async def captions(request: Request) -> Response:
        """One caption for each photo by each model, in the order of the photos."""
        async with service.visit(request, schema.CaptionFields) as visit:
            asked = visit.asked
            models, num_captions = service.named(asked.model or []), len(visit.body.uploads) > 1
            if asked.format == "png" and num_captions:
                raise Problem(422, "format: a png shows one photo. Send one photo, or ask for html.")
            photos, found = await service.answers(
                visit,
                models,
                beam_size=asked.beam_size,
                attention_mode=asked.attention_mode,
                show=asked.format != "json",
            )
            if asked.format == "json":
                told = [caption.to_dict() for caption in found]
                return JSONResponse(told if asked.attention else [{**caption, "attention": None} for caption in told])
            return await service.reader.aside(partial(drawn, photos, models, found, asked.format))

    @v1.post(
        "/log-probabilities",
        tags=["Photos"],
        summary="Score captions",
        response_model=list[schema.ScoresAnswer],
        response_description="The scores for each photo.",
        responses=refused,
        openapi_extra=schema.request_body(schema.ScoreFields, limits, names),
    )
    async def log_probabilities(request: Request) -> Response:
        """log p(caption | photo) of each caption for each photo, in the order of the photos."""
        async with service.visit(request, schema.ScoreFields) as visit:
            asked = visit.asked
            model = service.named([asked.model] if asked.model is not None else [])[0]
            words = [model.checkpoint.vocabulary.tokenizer.words(caption) for caption in asked.captions]
            if [] in words:
                raise Problem(422, f"captions: {asked.captions[words.index([])]!r} has no word in it.")
            photos, found = await service.answers(
                visit, [model], attention_mode=asked.attention_mode, captions=asked.captions
            )
        vocabulary = model.checkpoint.vocabulary
        return JSONResponse(
            [
                {
                    "source": photo.source,
                    "model": model.name,
                    "attention_mode": asked.attention_mode or model.checkpoint.generation.attention_mode,
                    "captions": [
                        {
                            "caption": caption,
                            "words": told,
                            "unknown": [word for word in told if word not in vocabulary],
                            "log_probability": score,
                        }
                        for caption, told, score in zip(asked.captions, words, scores, strict=True)
                    ],
                }
                for photo, scores in zip(photos, found, strict=True)
            ]
        )

    @v1.get(
        "/models",
        tags=["Server"],
        summary="List the models",
        response_model=schema.ModelsAnswer,
        response_description="The models, the default first.",
    )
    async def models() -> Response:
        """The models that are served, with their scores and cards, and the limits of a request."""
        told = []
        for name, captioner in service.captioners.items():
            checkpoint = captioner.checkpoint
            told.append(
                {
                    "name": name,
                    "attention": checkpoint.config.attention,
                    "words": len(checkpoint.vocabulary),
                    "generation": dataclasses.asdict(checkpoint.generation),
                    "training": checkpoint.training,
                    "scores": checkpoint.scores,
                    "card": checkpoint.card(name),
                }
            )
        return JSONResponse({"models": told, "limits": dataclasses.asdict(service.limits)})

    router.include_router(v1)

    @router.get(
        "/healthz",
        tags=["Server"],
        summary="Check the server",
        response_model=schema.HealthAnswer,
        response_description="The server works.",
        responses=schema.refusals(403, 503),
    )
    async def healthz() -> Response:
        """Whether the server works, and how many photos wait."""
        if not service.queue.alive:
            raise Problem(503, "The models' thread has ended: start the server again.")
        return JSONResponse({"status": "ok", "waiting": service.queue.waiting})

    return router


def drawn(photos: Sequence[Photo], models: Sequence[Captioner], found: Sequence[Caption], kind: str) -> Response:
    """The captions with the photos' small copies, as a picture or as a page."""
    captions = []
    for number, caption in enumerate(found):
        photo = photos[number // len(models)].copy
        assert photo is not None  # kept because the answer shows it
        captions.append(dataclasses.replace(caption, kept=photo))
    if kind == "png":
        file = io.BytesIO()
        captions[0].picture(compare=captions[1:]).save(file, format="PNG")
        return Response(file.getvalue(), media_type="image/png")
    cards = {model.name: model.checkpoint.card(model.name) for model in models}
    title = captions[0].source or "Show, Attend and Tell"
    return HTMLResponse(
        page.captions_page(
            [page.with_image(caption.to_dict(), caption.photo) for caption in captions], title=title, cards=cards
        )
    )


def pages(app: FastAPI) -> APIRouter:
    """What people look at: the web app, and the manual of the API."""
    router = APIRouter(include_in_schema=False)
    sent = {file.name: file.read_text(encoding="utf-8") for file in PAGE.iterdir()}
    sent |= {name: page.read(name) for name in ("page.css", "captions.js")}

    @router.get("/")
    async def index() -> Response:
        return HTMLResponse(sent["index.html"])

    @router.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(sent["docs.html"])

    @router.get("/openapi.json")
    async def openapi(request: Request) -> Response:
        server, document = str(request.base_url).rstrip("/"), app.openapi()
        about = {**document["info"], "description": ABOUT.format(server=server)}
        return JSONResponse({**document, "info": about, "servers": [{"url": server}]})

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in sent:
            raise HTTPException(404)
        return Response(sent[name], media_type=TYPES[Path(name).suffix])

    return router
