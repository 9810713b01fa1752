"""What the service answers: the model's own numbers, the facts of the release, and one sentence for whatever is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rule_models import histories, rule_models
from starlette.testclient import TestClient

import lowkey as lk
from lowkey.cli.main import run
from lowkey.errors import LowkeyError
from lowkey.release.opened import open_release
from lowkey.serving.http import answers
from lowkey.serving.http.limits import Limits
from lowkey.serving.http.schemas import Explain, Recommend, Similar
from lowkey.serving.http.served import Current, Served

MODELS = rule_models()
PLANTED = "Secret Affair 77"


def mine(served: Served, k: int = 5) -> dict[str, float]:
    ids = served.model.domain.item_ids.to_pylist()
    return {ids[7 * i]: 1.0 + i % 5 for i in range(k)}


def test_one_history_gets_what_the_model_says(client: TestClient, served: Served) -> None:
    history = mine(served)
    answer = client.post("/recommend", json={"history": history, "n": 7}).json()
    ids, scores = served.model.recommend(history, 7)
    assert answer == {"release": served.id, "items": ids.tolist(), "scores": scores.tolist()}


def test_many_histories_with_lists_get_what_the_model_says(client: TestClient, served: Served) -> None:
    ids = served.model.domain.item_ids.to_pylist()
    many = [mine(served, k) for k in (0, 3, 40)]
    lists = {"items": ids[:300], "exclude": ids[5:50]}
    asked = {"histories": many, "n": 4, **lists, "exclude_seen": False}
    answer = client.post("/recommend", json=asked).json()
    for history, found in zip(many, answer["lists"], strict=True):
        expected = served.model.recommend(history, 4, **lists, exclude_seen=False)
        assert found["items"] == expected[0].tolist()
        np.testing.assert_allclose(found["scores"], expected[1], rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_every_rule_answers_everything(name: str) -> None:
    model = MODELS[name]
    served, limits = Served("id", model, {}, {}), Limits()
    answers.warm_up(served)
    row = histories(model, 12)[[11]]
    ids = model.domain.ids(row.indices).tolist()
    history = ids if model.domain.rating_range is None else dict(zip(ids, row.data.tolist(), strict=True))
    best = answers.recommend(served, Recommend(history=history, n=6), limits)
    assert best["items"] == model.recommend(row, 6)[0][0].tolist()
    why = answers.explain(served, Explain(history=history, item=best["items"][0]), limits)
    expected = model.explain(row, best["items"][0])
    assert why["base"] + why["offset"] + sum(part["value"] for part in why["parts"]) == pytest.approx(expected.score)
    if name == "bias":
        return
    item = f"film {model.arrays['head'][0]}" if "head" in model.arrays else "film 0"
    alike = answers.similar(served, Similar(item=item, n=6), limits)
    assert alike["items"] == model.similar_items(item, 6)[0].tolist()
    json.dumps([best, why, alike], allow_nan=False)


def test_explain_and_similar_over_http(client: TestClient, served: Served) -> None:
    history = mine(served)
    item = served.model.domain.item_ids[100].as_py()
    why = client.post("/explain", json={"history": history, "item": item}).json()
    assert why["base"] + why["offset"] + sum(part["value"] for part in why["parts"]) == pytest.approx(
        served.model.scores(history)[0, 100]
    )
    alike = client.post("/similar", json={"item": item, "n": 3}).json()
    assert alike["items"] == served.model.similar_items(item, 3)[0].tolist()


def test_unknown_items_are_refused_or_ignored(client: TestClient, served: Served) -> None:
    history = {**mine(served), PLANTED: 4.0}
    refused = client.post("/recommend", json={"history": history})
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("a history: got ids that the catalogue does not have")
    found = client.post("/recommend", json={"history": history, "unknown": "ignore"}).json()
    assert found["items"] == served.model.recommend(mine(served))[0].tolist()


def test_the_facts_of_the_release(client: TestClient, served: Served, releases: tuple[Path, Path]) -> None:
    assert client.get("/report").json() == json.loads((releases[0] / "privacy_report.json").read_text())
    promised = client.get("/guarantee").json()
    assert promised["guarantee"]["epsilon"] == served.model.guarantee.epsilon
    assert promised["sentence"] == served.model.guarantee.sentence()
    page = client.get("/items?start=1195&n=100").json()
    assert page["items"] == served.model.domain.item_ids.to_pylist()[1195:]
    assert page["n_items"] == 1200
    assert client.get("/items?start=99999999999999999999").json()["items"] == []


def test_the_open_inference_protocol(client: TestClient, served: Served) -> None:
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/lowkey/ready").json() == {"name": "lowkey", "ready": True}
    facts = client.get("/v2/models/lowkey").json()
    assert (facts["name"], facts["versions"], facts["platform"]) == ("lowkey", [served.id], "lowkey")
    assert {part["name"] for part in facts["inputs"] + facts["outputs"]} == {"history", "ratings", "items", "scores"}
    assert client.get("/v2/models/another").status_code == 404
    client.current.draining = True  # type: ignore[attr-defined]
    assert client.get("/v2/health/ready").status_code == 503
    assert client.get("/v2/models/lowkey/ready").status_code == 503
    assert client.get("/v2/health/live").headers["connection"] == "close"


def test_the_page_is_served_as_it_was_exported(client: TestClient, served: Served, releases: Any, tmp_path: Path) -> None:
    from lowkey.release.site import SITE_FILES, write_site

    write_site(releases[0], tmp_path / "site")
    for name in SITE_FILES:
        answer = client.get(f"/{name}")
        assert answer.content == (tmp_path / "site" / name).read_bytes()
    assert client.get("/").text == (tmp_path / "site" / "index.html").read_text("utf-8")
    assert client.get("/").headers["content-type"].startswith("text/html")


def test_the_openapi_document_has_examples_that_work(client: TestClient, client_of: Any) -> None:
    document = client.get("/openapi.json").json()
    domain = lk.Domain([f"film {i}" for i in range(1500)], (0.5, 5.0))
    named = lk.Model("made up", "factors", MODELS["factors"].arrays, MODELS["factors"].settings, domain, None)  # type: ignore[arg-type]
    films = client_of(Current(Served("id", named, {}, {})))
    for path, request in (("/recommend", "Recommend"), ("/similar", "Similar"), ("/explain", "Explain")):
        examples = document["components"]["schemas"][request]["examples"]
        for example in examples:
            assert films.post(path, json=example).status_code == 200
    assert "/docs" not in document["paths"]
    assert client.get("/docs").status_code == 404  # such a page would load scripts from elsewhere


BAD = {
    "no JSON": (b'{"history"', 400),
    "not an object": (b"[1, 2]", 422),
    "nothing": (b"", 422),
    "neither": (b"{}", 422),
    "both": (b'{"history": {}, "histories": []}', 422),
    "a rating that is text": (json.dumps({"history": {PLANTED: "4"}}).encode(), 422),
    "no finite rating": (b'{"history": {"Secret Affair 77": NaN}}', 422),
    "a rating beyond floats": (b'{"history": {"Secret Affair 77": 1e999}}', 422),
    "a rating off the scale": (json.dumps({"history": {PLANTED: 70}, "unknown": "ignore"}).encode(), 200),
    "a bare history": (json.dumps({PLANTED: 4.0}).encode(), 422),
    "ids without ratings": (json.dumps({"history": [PLANTED]}).encode(), 422),
    "a nested history": (json.dumps({"history": {PLANTED: {PLANTED: 1}}}).encode(), 422),
    "a history of null": (json.dumps({"histories": [None, PLANTED]}).encode(), 422),
    "an id of another kind": (json.dumps({"history": {}, "exclude": [PLANTED, 3.5]}).encode(), 422),
    "mixed kinds of ids": (json.dumps({"history": {}, "exclude": [PLANTED, 3]}).encode(), 422),
    "n of zero": (b'{"history": {}, "n": 0}', 422),
    "n of text": (json.dumps({"history": {}, "n": PLANTED}).encode(), 422),
    "n beyond the catalogue": (b'{"history": {}, "n": 100000000000000000000000}', 422),
    "n of true": (b'{"history": {}, "n": true}', 422),
    "a wrong word": (json.dumps({"history": {}, "unknown": PLANTED}).encode(), 422),
    "half a character": (b'{"history": {"Secret Affair 77\\ud800": 3}}', 422),
    "an empty id": (b'{"history": {"": 3}}', 422),
    "deep nesting": (b'{"history": ' + b"[" * 100_000, 400),
    "no text at all": (b"\xff\xfe\x00\x80", 400),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_gets_a_sentence_and_no_echo(client: TestClient, name: str, capfd: Any) -> None:
    content, status = BAD[name]
    answer = client.post("/recommend", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    if status != 200:
        assert set(answer.json()) == {"error"}
        assert answer.json()["error"].endswith(".")
        assert "\n" not in answer.json()["error"]
    assert "Secret" not in answer.text + str(answer.headers) + "".join(capfd.readouterr())


def test_limits_are_kept(client_of: Any, served: Served) -> None:
    client = client_of(limits=Limits(body_bytes=3000, histories=3, length=10, n=20, page=50))
    for path, asked, status in (
        ("/recommend", {"histories": [{}] * 4}, 422),
        ("/recommend", {"histories": [{}] * 3}, 200),
        ("/recommend", {"history": mine(served, 11)}, 422),
        ("/recommend", {"history": {}, "n": 21}, 422),
        ("/explain", {"history": mine(served, 11), "item": "x"}, 422),
        ("/similar", {"item": "x" * 3000}, 413),
    ):
        answer = client.post(path, json=asked)
        assert (answer.status_code, "error" in answer.json()) == (status, status != 200), answer.text
    assert client.get("/items?n=51").status_code == 422

    def endless() -> Any:
        for _ in range(100):
            yield b" " * 100

    assert client.post("/recommend", content=endless()).status_code == 413  # no length was declared


def test_a_fault_is_told_without_its_message(client_of: Any, served: Served, monkeypatch: Any, capfd: Any) -> None:
    """The server below logs unhandled exceptions with their text, so none may reach it."""
    heard: list[str] = []
    client = client_of(surprised=heard.append)
    monkeypatch.setattr(type(served.model), "recommend", lambda *_, **__: {}[PLANTED])
    answer = client.post("/recommend", json={"history": {}})
    assert answer.status_code == 500
    assert "KeyError at test_answers.py" in answer.json()["error"]
    assert heard == [answer.json()["error"]]
    assert "Secret" not in answer.text + "".join(heard) + "".join(capfd.readouterr())


def test_a_long_computation_is_given_up(client_of: Any, served: Served, monkeypatch: Any) -> None:
    import time

    client = client_of(limits=Limits(seconds=0.2))
    monkeypatch.setattr(type(served.model), "recommend", lambda *_, **__: time.sleep(0.6))
    answer = client.post("/recommend", json={"history": {}})
    assert answer.status_code == 503
    assert answer.json()["error"].startswith("The answer took longer")


def test_the_token_guards_all_but_health_and_page(client_of: Any) -> None:
    client = client_of(token="correct horse battery")
    good = {"authorization": "Bearer correct horse battery"}
    for wrong in ({}, {"authorization": "Bearer correct horse batterz"}, {"authorization": "correct horse battery"},
                  {"authorization": "Bearer "}, {"authorization": "Bearer caf\xe9".encode("latin-1")}):  # fmt: skip
        for path in ("/items", "/guarantee", "/report", "/metrics", "/openapi.json", "/v2/models/lowkey"):
            answer = client.get(path, headers=wrong)
            assert answer.status_code == 401
            assert answer.json()["error"].startswith("The token is missing or wrong")
        assert client.post("/recommend", json={"history": {}}, headers=wrong).status_code == 401
    assert client.post("/recommend", json={"history": {}}, headers=good).status_code == 200
    for path in ("/v2/health/live", "/v2/health/ready", "/", "/lowkey.js", "/privacy_report.html"):
        assert client.get(path).status_code == 200


def test_other_sites_may_ask_only_if_named(client_of: Any) -> None:
    asking = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client_of().get("/guarantee", headers=asking).headers
    assert client_of().options("/recommend", headers=asking).status_code == 405
    named = client_of(origins=("https://shop.example",), token="correct horse battery")
    assert named.options("/recommend", headers=asking).headers["access-control-allow-origin"] == "https://shop.example"
    stranger = named.options("/recommend", headers={**asking, "origin": "https://evil.example"})
    assert "access-control-allow-origin" not in stranger.headers


def test_answers_are_not_to_be_cached(client: TestClient) -> None:
    assert client.post("/recommend", json={"history": {}}).headers["cache-control"] == "no-store"


def test_metrics_name_no_item_and_no_person(client: TestClient, served: Served) -> None:
    history = mine(served, 30)
    client.post("/recommend", json={"history": history})
    client.post("/recommend", json={"history": {PLANTED: 3.0}})
    client.get(f"/{PLANTED}")
    client.get(f"/v2/models/{PLANTED}")
    text = client.get("/metrics").text
    assert 'lowkey_requests_total{path="/recommend",status="200"} 1.0' in text
    assert 'lowkey_requests_total{path="/recommend",status="422"} 1.0' in text
    assert 'lowkey_requests_total{path="other",status="404"} 2.0' in text
    assert f'id="{served.id}"' in text
    assert "Secret" not in text
    assert not any(item in text for item in history)
    named = [line[line.index("{") + 1 : line.index("}")] for line in text.splitlines() if "{" in line and line[0] != "#"]
    labels = {pair.split("=")[0] for pairs in named for pair in pairs.split(",")}
    assert labels <= {"path", "status", "le", "id", "method", "outcome"}


def test_an_exchange_is_whole(client_of: Any, served: Served, other: Served, monkeypatch: Any) -> None:
    """The release is exchanged while an answer is being computed: the answer is still of the old one, all of it."""
    current = Current(served)
    client = client_of(current)
    computed = type(served.model).recommend

    def exchanged(self: Any, *args: Any, **options: Any) -> Any:
        current.swap(other)
        return computed(self, *args, **options)

    monkeypatch.setattr(type(served.model), "recommend", exchanged)
    answer = client.post("/recommend", json={"history": mine(served)})
    monkeypatch.undo()
    assert answer.headers["lowkey-release"] == answer.json()["release"] == served.id
    assert answer.json()["scores"] == served.model.recommend(mine(served))[1].tolist()
    after = client.post("/recommend", json={"history": mine(served)}).json()
    assert after["release"] == other.id
    assert after["scores"] == other.model.recommend(mine(served))[1].tolist() != answer.json()["scores"]


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


BAD_FOLDERS = {
    "changed model": (lambda folder: _flip(folder / "model.safetensors"), "model.safetensors"),
    "changed report": (lambda folder: _flip(folder / "privacy_report.html"), "privacy_report.html"),
    "half a ledger": (
        lambda folder: (folder / "ledger.jsonl").write_bytes((folder / "ledger.jsonl").read_bytes()[:100]), "ledger.jsonl"
    ),
    "half-written": (lambda folder: (folder / "items.parquet").unlink(), "items.parquet"),
    "no manifest yet": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json"),
    "another version": (
        lambda folder: (folder / "manifest.json").write_text(
            (folder / "manifest.json").read_text().replace("lowkey-release/1", "lowkey-release/9")
        ),
        "lowkey-release/9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", BAD_FOLDERS)
def test_a_bad_folder_is_not_served(releases: tuple[Path, Path], tmp_path: Path, damage: str, capfd: Any) -> None:
    shutil.copytree(releases[0], tmp_path / "release")
    spoil, named = BAD_FOLDERS[damage]
    spoil(tmp_path / "release")
    with pytest.raises(LowkeyError, match=named):
        open_release(tmp_path / "release")
    assert run(["serve", str(tmp_path / "release"), "--port", "0"]) == 1
    said = capfd.readouterr().err
    assert said.startswith("lowkey: this release folder is not intact: got ")
    assert said.count("\n") == 1


def test_no_folder_and_bad_options_are_one_line(releases: tuple[Path, Path], tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "token").write_text("short")
    for arguments in (
        ["serve", str(tmp_path / "nowhere")],
        ["serve", str(releases[0]), "--token-file", str(tmp_path / "token")],
        ["serve", str(releases[0]), "--token-file", str(tmp_path / "none")],
        ["serve", str(releases[0]), "--port", "70000"],
        ["serve", str(releases[0]), "--no-page", "--host", "203.0.113.1"],
    ):
        assert run(arguments) == 2
        said = capfd.readouterr().err
        assert said.startswith("lowkey: ")
        assert said.count("\n") == 1


def test_large_numbers_survive_javascript() -> None:
    ids = [2**53 + 1 + i for i in range(1500)]
    model = MODELS["factors"]
    large = lk.Model("made up", model.rule, model.arrays, model.settings, lk.Domain(ids, (0.5, 5.0)), None)  # type: ignore[arg-type]
    found = answers.recommend(Served("id", large, {}, {}), Recommend(history={str(ids[3]): 4.0}), Limits())
    assert set(found["items"]) <= {str(i) for i in ids}
