"""What can be wrong with bytes and with JSON, as strategies: each is a function from what is there to something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Change = Callable[[bytes], bytes]
CONTROL = "\x1b[2J\x1b[Hyes  Everything holds\u202e"


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, True, "", CONTROL, "../../x", "/tmp/x", "x" * 100_000, nested(200), [0] * 5000, {}, {"": {}}]),
    st.sampled_from([0, -1, 1, 2, 10**9, 2 * 10**9, 2**31, 2**50, 2**63, 10**400, -(10**400)]),
    st.sampled_from([0.0, -0.0, 1e-320, 1e-9, 1e9, 1e308, -1e308, 0.1, float("inf"), float("-inf"), float("nan")]),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=4),
)


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in inside:
        found += places(part, (*path, key))
    return found


@st.composite
def json_changes(draw: st.DrawFn) -> Callable[[Any], None]:
    """A function that changes a JSON object in place, somewhere."""
    where, how, value = draw(st.floats(0.0, 1.0)), draw(st.sampled_from(["set", "set", "set", "drop", "add"])), draw(VALUES)
    key = draw(st.text(max_size=6) | st.sampled_from(["times", "total", "kind", "shape", "user"]))

    def change(content: Any) -> None:
        paths = places(content)[1:]
        path = paths[min(len(paths) - 1, int(where * len(paths)))]
        holder = content
        for step in path[:-1]:
            holder = holder[step]
        if how == "drop":
            del holder[path[-1]]
        elif how == "add" and isinstance(holder, dict):
            holder[key] = value
        else:
            holder[path[-1]] = value

    return change


@st.composite
def byte_changes(draw: st.DrawFn) -> Change:
    """Some bytes flipped, cut off, doubled or put in."""
    how = draw(st.sampled_from(["flip", "flip", "cut", "double", "insert", "repeat", "empty"]))
    spots = draw(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=4))
    new = draw(
        st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\n", b'"', b",", b"[" * 9999])
    )

    def change(data: bytes) -> bytes:
        at = sorted(int(spot * len(data)) for spot in spots)
        if how == "flip":
            changed = bytearray(data)
            for place in at:
                changed[place : place + len(new)] = new[: len(data) - place]
            return bytes(changed)
        return {
            "cut": data[: at[0]],
            "double": data + data[at[0] :],
            "insert": data[: at[0]] + new + data[at[0] :],
            "repeat": data[: at[0]] + data[at[0] : at[-1]] * 3 + data[at[-1] :],
            "empty": b"",
        }[how]

    return change


def json_text(change: Callable[[Any], None], **options: Any) -> Change:
    """The same for the text of a JSON object."""

    def changed(data: bytes) -> bytes:
        content = json.loads(data)
        change(content)
        return json.dumps(content, **options).encode()

    return changed
