"""The app: what can be asked over HTTP, the web app, and the API's manual."""

import asyncio
import dataclasses
import io
import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Form, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from show_attend_tell import __version__
from show_attend_tell.caption import Caption
from show_attend_tell.captioner import Captioner
from show_attend_tell.errors import SatError
from show_attend_tell.messages import shorten
from show_attend_tell.server import schema
from show_attend_tell.server.guard import Guard
from show_attend_tell.server.limits import Limits, Problem
from show_attend_tell.server.queue import Hide, Photo
from show_attend_tell.server.reading import FormRequest
from show_attend_tell.server.service import Service
from show_attend_tell.settings import remedy
from show_attend_tell.show import page
from show_attend_tell.show.pictures import Shown
from show_attend_tell.values import Record

FORM = Form(media_type="multipart/form-data")
PAGE = Path(__file__).parent / "page"
REVIEW = Path(__file__).parent.parent / "review" / "page"

ABOUT = """Captions of photos. For each word, the answer has the attention (α) over the photo, how much the word relied
on the photo (β) and, with `evidence=true`, which locations of the photo supported the word.

Send photos as files of a form (`multipart/form-data`), under the name `photos`. A body in JSON is not accepted.

    curl -F photos=@dog.jpg -F beam_size=5 -F attention=false {server}/v1/captions
    curl -F photos=@dog.jpg -F format=png -o caption.png {server}/v1/captions
    curl -F photos=@dog.jpg -F "captions=a dog runs" -F "captions=a cat sleeps" {server}/v1/log-probabilities
    curl -F photos=@dog.jpg -F word=dog {server}/v1/hidden
    curl {server}/v1/models

The answers are in the order of the photos. When some photos cannot be used, the status is 207 (Multi-Status): the
others are answered, and these have an `error` in their places. So the work for the good photos is not lost, and the
status alone says that something is missing. When no photo can be used, the status is that of the first one's problem.

If the server asks for a token, add `-H "Authorization: Bearer TOKEN"`.

Every refusal is a JSON object (RFC 9457) whose `detail` says what is wrong and what to do.

[Open the web app](./)
"""


def make_app(
    captioners: Sequence[Captioner],
    *,
    limits: Limits | None = None,
    token: str | None = None,
    proxies: Collection[str] = (),
) -> Guard:
    """The ASGI app that serves these models; the first answers when a request names none.

    With a ``token`` every request under /v1/ must bring it; without one the app answers this machine alone. ``proxies``
    are the addresses whose X-Forwarded headers count. Raises `SatError` for two models of one name.
    """
    service = Service(captioners, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.queue.stop)  # aside, so that the last answers are sent meanwhile

    app = FastAPI(
        title="Show, Attend and Tell",
        version=__version__,
        openapi_url=None,  # `pages` serves these three: the document says its own address, and no script comes from
        docs_url=None,  # another host
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((RequestValidationError, SatError, HTTPException, Exception), on_error),
    )
    app.include_router(api(service, token))
    app.include_router(pages(app))
    app.mount("/static/swagger-ui", StaticFiles(packages=[("fastapi_offline", "static")]))  # which shows the manual
    files = StaticFiles(directory=PAGE, packages=[("show_attend_tell", f"{part}/page") for part in ("show", "review")])
    app.mount("/static", files)
    return Guard(app, token=token, proxies=proxies)


async def on_error(request: Request, error: Any) -> Response:
    """The refusal that an error stands for: ours, the framework's (no such path or method), or a fault."""
    if isinstance(error, Problem):
        return error.answer()
    if isinstance(error, RequestValidationError):
        return Problem(422, "; ".join(map(invalid, error.errors()[:3])) + ".").answer()
    if isinstance(error, SatError):  # such as a picture by a model without attention
        return Problem(422, f"{error}.").answer()
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        return Problem(error.status_code, f"{error.detail}: see /docs.", headers=headers).answer()
    detail = f"The server has a fault ({type(error).__name__}). Its log tells more."
    return Problem(500, detail, headers={"Connection": "close"}).answer()


def invalid(error: Record) -> str:
    """What is wrong with a field of a form: what was given, and what to give."""
    name = str(error["loc"][1]) if len(error["loc"]) > 1 else "the request"
    if name == "photos":
        return "photos: the request has no photo; send one or several as files, with a file name"
    value = f" (given: {shorten(error['input'])})" if isinstance(error.get("input"), str) else ""
    if error["type"] == "extra_forbidden":
        return f"{name}: there is no such field; /docs lists the fields"
    if name in schema.SETTINGS:
        return f"{name}: {remedy(schema.SETTINGS[name])}{value}"
    return f"{name}: {error['msg']}{value}"


def api(service: Service, token: str | None) -> APIRouter:
    """The paths for programs."""
    router = APIRouter()
    options: Record = {
        "prefix": "/v1",
        "responses": schema.refusals(401, 403) if token else schema.refusals(403),
        "dependencies": [Depends(HTTPBearer(auto_error=False))] if token else [],  # for the document; `Guard` checks
    }
    forms = APIRouter(route_class=service.route_class(), tags=["Photos"], **options)
    v1 = APIRouter(tags=["Server"], **options)

    @forms.post(
        "/captions", summary="Caption photos", responses=schema.answers(schema.CaptionAnswer, "image/png", "text/html")
    )
    async def captions(request: FormRequest, form: Annotated[schema.CaptionForm, FORM]) -> Response:
        """One caption for each photo by each model, in the order of the photos."""
        models = service.named(form.model)
        if form.format == "png" and len(form.photos) > 1:
            raise Problem(422, "format: a png shows one photo. Send one photo, or ask for html.")
        shown = form.format != "json"
        tasks = [service.task(model, evidence=form.evidence or shown, **form.settings()) for model in models]
        answers = await service.answers(request, form.photos, tasks, show=shown)
        if form.format == "png":
            return await service.aside(partial(picture, *answers[0].results, shown=form.shown))
        if form.format == "html":
            return await service.aside(partial(captions_page, answers, models))
        omitted = {} if form.attention else {"attention": None}
        return in_json(answers, len(models), lambda caption: {**caption.to_dict(), **omitted})

    @forms.post("/log-probabilities", summary="Score captions", responses=schema.answers(schema.ScoresAnswer))
    async def log_probabilities(request: FormRequest, form: Annotated[schema.ScoreForm, FORM]) -> Response:
        """log p(caption | photo) of each caption for each photo, in the order of the photos."""
        (model,) = service.named([form.model])
        texts = [as_read(caption, model, service.limits) for caption in form.captions]
        task = service.task(model, form.captions, **form.settings())
        about = {"model": model.name, "attention_mode": task.config.attention_mode}

        def scored(scores: Sequence[float]) -> Record:
            pairs = zip(texts, scores, strict=True)
            return {**about, "captions": [{**text, "log_probability": score} for text, score in pairs]}

        return in_json(await service.answers(request, form.photos, [task]), 1, scored)

    @forms.post("/hidden", summary="Hide a word's place", responses=schema.answers(schema.HiddenAnswer))
    async def hidden(request: FormRequest, form: Annotated[schema.HideForm, FORM]) -> Response:
        """Each photo captioned again with a word's place hidden, and with controls, in the order of the photos."""
        (model,) = service.named([form.model])
        try:
            place = json.loads(form.place or "null")
        except (ValueError, RecursionError) as error:
            raise Problem(422, f"place: this is not JSON ({error}).") from error
        task = service.task(model, evidence=True, hide=Hide(form.word or None, place), **form.settings())
        answers = await service.answers(request, form.photos, [task], show=True)
        return in_json(answers, 1, lambda found: {"before": found.before.text, **found.to_dict()})

    @v1.get("/models", summary="List the models", response_model=schema.ModelsAnswer)
    async def models() -> Response:
        """The models that are served, with their scores and cards, and the limits of a request."""
        listed = [
            {
                "name": name,
                "attention": checkpoint.config.attention,
                "words": len(checkpoint.vocabulary),
                "generation": checkpoint.generation.values(),
                "training": checkpoint.training,
                "scores": checkpoint.scores,
                "card": checkpoint.card(name),
            }
            for name, captioner in service.captioners.items()
            for checkpoint in [captioner.checkpoint]
        ]
        return JSONResponse({"models": listed, "limits": dataclasses.asdict(service.limits)})

    router.include_router(forms)
    router.include_router(v1)

    @router.get(
        "/healthz",
        tags=["Server"],
        summary="Check the server",
        response_model=schema.HealthAnswer,
        responses=schema.refusals(403),
    )
    async def healthz() -> Response:
        """Whether the server works, and how many photos wait."""
        return JSONResponse({"status": "ok", "waiting": service.queue.waiting})

    return router


def as_read(caption: str, model: Captioner, limits: Limits) -> Record:
    """A caption that was given, as the model reads it; raises `Problem` for one without a word or with too many."""
    vocabulary = model.checkpoint.vocabulary
    words = vocabulary.tokenizer.words(caption)
    if not words:
        raise Problem(422, f"captions: {caption!r} has no word in it.")
    limits.check("caption_words", len(words), 422, f"captions: one has {len(words)} words")
    return {"caption": caption, "words": words, "unknown": [word for word in words if word not in vocabulary]}


def in_json(answers: Sequence[Photo], models: int, entry: Callable[[Any], Record]) -> Response:
    """Each photo's results as `entry` says them, one a model, or the photo's problem as often."""
    content: list[Record] = []
    for answer in answers:
        if answer.problem is None:
            entries = [entry(result) for result in answer.results]
        else:
            entries = [{"error": answer.problem.content()}] * models
        content += [{"source": answer.source, **values} for values in entries]
    return JSONResponse(content, status_of(answers))


def status_of(answers: Sequence[Photo]) -> int:
    """207, Multi-Status, when some photos cannot be used."""
    return 200 if all(answer.problem is None for answer in answers) else 207


def picture(caption: Caption, *others: Caption, shown: Shown) -> Response:
    file = io.BytesIO()
    caption.picture(compare=others, shown=shown).save(file, format="PNG")
    return Response(file.getvalue(), media_type="image/png")


def captions_page(answers: Sequence[Photo], models: Sequence[Captioner]) -> Response:
    """The captions with their photos as a page, which also lists the photos that cannot be used."""
    captions = [page.with_image(caption.to_dict(), caption.photo) for answer in answers for caption in answer.results]
    cards = {model.name: model.checkpoint.card(model.name) for model in models}
    failed = [(answer.source or "photo", answer.problem.detail) for answer in answers if answer.problem is not None]
    title = captions[0]["source"] or "Show, Attend and Tell"
    return HTMLResponse(page.captions_page(captions, title=title, cards=cards, failed=failed), status_of(answers))


def pages(app: FastAPI) -> APIRouter:
    """What people look at: the web app, and the manual of the API."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def index() -> Response:
        return FileResponse(PAGE / "index.html")

    @router.get("/review")
    async def review() -> Response:
        body = (REVIEW / "review.html").read_text(encoding="utf-8").partition('<body class="sat-page">')[2]
        whole = (PAGE / "many.html").read_text(encoding="utf-8")
        return HTMLResponse(whole.replace("%REVIEW%", body.partition("</body>")[0]))

    @router.get("/docs")
    async def docs() -> Response:
        return FileResponse(PAGE / "docs.html")

    @router.get("/openapi.json")
    async def openapi(request: Request) -> Response:
        server = str(request.base_url).rstrip("/")
        document = app.openapi()
        about = {**document["info"], "description": ABOUT.format(server=server)}
        return JSONResponse({**document, "info": about, "servers": [{"url": "."}]})

    return router
