"""Public room: options that several commands share, as one parameter: a dataclass whose fields are the options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def ungrouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as the parser wants it: in the place of a parameter that is a dataclass stand the fields of that."""
    hints = get_type_hints(command, include_extras=True)
    plain, groups = list[inspect.Parameter](), dict[str, Any]()
    for name, parameter in inspect.signature(command).parameters.items():
        if dataclasses.is_dataclass(kind := hints[name]):
            groups[name], types = kind, get_type_hints(kind, include_extras=True)
            plain += [
                inspect.Parameter(field.name, parameter.kind, default=field.default, annotation=types[field.name])
                for field in dataclasses.fields(kind)
            ]
        else:
            plain.append(parameter.replace(annotation=hints[name]))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{f.name: given.pop(f.name) for f in dataclasses.fields(kind)}) for name, kind in groups.items()
        }
        command(**given, **made)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in plain}
    vars(run)["__signature__"] = inspect.Signature(plain)
    return run
