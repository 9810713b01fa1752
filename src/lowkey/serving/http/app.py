"""Local room: the service's addresses. Each takes the release once, and answers from it alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from lowkey.errors import InputError
from lowkey.serving.http import answers, schemas
from lowkey.serving.http.guard import HEALTH, Guard
from lowkey.serving.http.limits import Limits, Refusal, refuse_more_than
from lowkey.serving.http.metrics import Metrics
from lowkey.serving.http.schemas import of_status, of_validation
from lowkey.serving.http.served import Current, Served

ABOUT = (
    "Recommendations from a release with a privacy statement that anyone can check. A history is used for its own answer "
    "and is not kept. Whatever tells of a person goes into the body of a POST."
)
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": words}
    for status, words in (
        (400, "not JSON"), (401, "no token, or a wrong one"), (408, "too slow"), (413, "too large"),
        (422, "not as needed"), (500, "a fault of the service"), (503, "too busy, or about to end"),
    )
}  # fmt: skip
KINDS = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "json": "application/json"}
PAGE = "index.html"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def build_app(
    current: Current,
    limits: Limits,
    *,
    version: str,
    token: str | None = None,
    origins: tuple[str, ...] = (),
    surprised: Callable[[str], None] = lambda sentence: None,
) -> FastAPI:
    """The service of what is current."""
    # One thread computes, so that a long answer does not hold up the reading of requests; its arithmetic uses no others.
    pool = ThreadPoolExecutor(1, "lowkey-answers")
    app = FastAPI(title="lowkey", version=version, description=ABOUT, docs_url=None, redoc_url=None, responses=ERRORS)

    async def compute(ask: Callable[[Served, Any, Limits], Any], asked: Any) -> JSONResponse:
        served = current.served
        try:
            async with asyncio.timeout(limits.seconds):
                answer = await asyncio.get_running_loop().run_in_executor(pool, ask, served, asked, limits)
        except TimeoutError:
            raise Refusal(503, f"The answer took longer than {limits.seconds:g} seconds. Ask for less at once.") from None
        return JSONResponse(answer, headers={"lowkey-release": served.id})

    _add_questions(app, compute)
    _add_facts(app, current, limits)
    _add_health(app, current)
    _add_page(app, current)
    _add_errors(app)
    metrics = Metrics(current, [path for route in app.routes if "{" not in (path := getattr(route, "path", "{"))])
    _add_metrics(app, metrics)

    def is_open(path: str) -> bool:
        """Health for probes; and the page, which is public like the release and computes in the visitor's browser."""
        return path in HEALTH or path == "/" or path[1:] in current.served.files

    app.add_middleware(
        Guard, current=current, limits=limits, metrics=metrics, token=token, is_open=is_open, surprised=surprised
    )
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["*"])
    return app


def _add_questions(app: FastAPI, compute: Callable[..., Any]) -> None:
    @app.post("/recommend", response_model=schemas.OneList | schemas.ManyLists, tags=["recommend"])
    async def recommend(asked: schemas.Recommend) -> Any:
        """The best items for one history, or for each of many."""
        return await compute(answers.recommend, asked)

    @app.post("/similar", response_model=schemas.OneList, tags=["recommend"])
    async def similar(asked: schemas.Similar) -> Any:
        """The items most like one."""
        return await compute(answers.similar, asked)

    @app.post("/explain", response_model=schemas.Why, tags=["recommend"])
    async def explain(asked: schemas.Explain) -> Any:
        """Why an item gets its score: what each item of a history adds to it."""
        return await compute(answers.explain, asked)


def _add_facts(app: FastAPI, current: Current, limits: Limits) -> None:
    @app.get("/items", response_model=schemas.Catalogue, tags=["release"])
    async def items(start: Annotated[int, Query(ge=0)] = 0, n: Annotated[int, Query(ge=1)] = 100) -> Any:
        """A part of the catalogue, in its order."""
        refuse_more_than(limits.page, "n", n)
        return answers.items(current.served, start, n)

    @app.get("/guarantee", response_model=schemas.Promise, tags=["release"])
    async def guarantee() -> Any:
        """What the release promises, in a sentence and in numbers."""
        return answers.guarantee(current.served)

    @app.get("/report", tags=["release"])
    async def report() -> dict[str, Any]:
        """The release's privacy report; as a page it is at /privacy_report.html."""
        return dict(current.served.report)


def _add_health(app: FastAPI, current: Current) -> None:
    """Addresses and answers of the open inference protocol."""

    def named(name: str) -> Served:
        if name != current.name:
            raise Refusal(404, "There is no model of this name. See /v2/models.")
        return current.served

    @app.get("/v2", tags=["service"])
    async def server() -> dict[str, Any]:
        return {"name": "lowkey", "version": app.version, "extensions": []}

    @app.get("/v2/health/live", tags=["service"])
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready", tags=["service"])
    async def ready() -> dict[str, bool]:
        if current.draining:
            raise Refusal(503, "The service is about to end.")
        return {"ready": True}

    @app.get("/v2/models", tags=["service"])
    async def models() -> dict[str, list[str]]:
        return {"models": [current.name]}

    @app.get("/v2/models/{name}", response_model=schemas.ModelFacts, responses=_NO_MODEL, tags=["service"])
    async def model(name: str) -> Any:
        return {"name": current.name, "versions": [named(name).id], "platform": "lowkey", **_TENSORS}

    @app.get("/v2/models/{name}/ready", responses=_NO_MODEL, tags=["service"])
    async def model_ready(name: str) -> dict[str, Any]:
        named(name)
        return {"name": current.name, **(await ready())}


_NO_MODEL: dict[int | str, dict[str, Any]] = {404: {"model": schemas.Error, "description": "no such model"}}
_TENSORS = {  # of one question to /recommend
    "inputs": [
        {"name": "history", "datatype": "BYTES", "shape": [-1]},
        {"name": "ratings", "datatype": "FP64", "shape": [-1]},
    ],
    "outputs": [
        {"name": "items", "datatype": "BYTES", "shape": [-1]},
        {"name": "scores", "datatype": "FP64", "shape": [-1]},
    ],
}


def _add_page(app: FastAPI, current: Current) -> None:
    """The page that recommends in the visitor's browser, and the files beside it."""

    def add(path: str, name: str) -> None:
        kind = KINDS.get(name.rsplit(".", 1)[-1], "application/octet-stream")

        @app.get(path, include_in_schema=False)
        async def file() -> Response:
            served = current.served
            return Response(served.files[name], media_type=kind, headers={"lowkey-release": served.id})

    for name in current.served.files:
        add(f"/{name}", name)
    if PAGE in current.served.files:
        add("/", PAGE)


def _add_metrics(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/metrics", response_class=PlainTextResponse, tags=["service"])
    async def numbers() -> Response:
        """Numbers for Prometheus: addresses, statuses and times; no item and no user."""
        return Response(metrics.text(), media_type=METRICS_TYPE)


def _add_errors(app: FastAPI) -> None:
    """Every error is one sentence under "error"; what was sent is not repeated."""

    def answered(status: int, sentence: str) -> JSONResponse:
        return JSONResponse({"error": sentence}, status)

    @app.exception_handler(RequestValidationError)
    async def not_as_needed(_: Request, error: RequestValidationError) -> JSONResponse:
        return answered(*of_validation(error.errors()))

    @app.exception_handler(InputError)
    async def bad_input(_: Request, error: InputError) -> JSONResponse:
        return answered(422, str(error))

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> JSONResponse:
        return answered(error.status, error.sentence)

    @app.exception_handler(HTTPException)
    async def refused_below(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": of_status(error.status_code)}, error.status_code, headers=error.headers)
