"""Public room: the entry point `lowkey`. Every error is one line that says what, got, needed, try, and an exit code.

0: done. 1: a check failed, or a ledger is damaged. 2: bad input. 130: interrupted. Unexpected errors show no message of
theirs: it could quote somebody's data. LOWKEY_DEBUG=1 shows it, for public data.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, get_type_hints

import typer

from lowkey.errors import LedgerError, LowkeyError, VerifyError, printable

# By name, and loaded by name: some commands belong to the lab, which the public rooms never import.
COMMANDS = {
    "demo": "lowkey.evaluation.demo:demo",
    "release": "lowkey.cli.release:release",
    "refresh": "lowkey.cli.refresh:refresh",
    "recommend": "lowkey.cli.recommend:recommend",
    "similar": "lowkey.cli.recommend:similar",
    "verify": "lowkey.cli.verify:verify",
    "keygen": "lowkey.cli.verify:keygen",
    "explain": "lowkey.cli.verify:explain",
    "evaluate": "lowkey.evaluation.commands:evaluate",
    "curve": "lowkey.evaluation.commands:curve",
    "plan": "lowkey.cli.plan:plan",
    "audit": "lowkey.audit.command:audit",
    "ledger": "lowkey.cli.ledger:ledger",
    "export": "lowkey.cli.export:export",
    "serve": "lowkey.cli.serve:serve",
}
MORE_COMMANDS = "lowkey.commands"  # the entry points of other packages, such as lowkey-lab
INTERRUPTED = 130
KEYWORDS = (
    "user|item|rating|duplicates|unknown_items|format|epsilon|delta|adjacency|expected_users|scratch|partitions|expect_head"
    "|delimiter|decimal|encoding|quote|missing|query|time"
)


def build_app(command: str | None = None) -> typer.Typer:
    """The program; with the name of a command, only what that one needs is loaded."""
    app = typer.Typer(
        help="Turn a table of ratings into a recommender that may be published, with a privacy statement that anyone can "
        "check. Start with: lowkey demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )

    # A callback also keeps a program of one command from swallowing its name.
    @app.callback(invoke_without_command=True)
    def options(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
        if version:
            from lowkey import __version__

            typer.echo(__version__)
            raise typer.Exit

    others = {entry.name: entry.value for entry in entry_points(group=MORE_COMMANDS)}
    commands = {**COMMANDS, **{name: place for name, place in others.items() if name not in COMMANDS}}
    for name, place in commands.items() if command not in commands else [(command, commands[command])]:
        module, _, function = place.partition(":")
        found = getattr(import_module(module), function)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(ungrouped(found))
    return app


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


def run(arguments: list[str]) -> int:
    """Run a command; returns its exit code."""
    try:
        code = build_app(arguments[0] if arguments else None)(arguments, standalone_mode=False, prog_name="lowkey")
        if code == INTERRUPTED:  # the parser swallows Ctrl-C and returns this
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except LowkeyError as error:
        _complain(_with_options(str(error)))
        return 1 if isinstance(error, VerifyError | LedgerError) else 2
    except typer.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted; what was reserved counts, and a release is there whole or not at all")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        return _usage_error(error) or _unexpected(error)


def _with_options(text: str) -> str:
    """Errors speak Python: `duplicates='last'` is `--duplicates last` here."""

    def option(found: re.Match[str]) -> str:
        value = found["text"] or found["number"]
        return f"--{found['name'].replace('_', '-')}" + (f" {value}" if value else "")

    text = text.replace("check_axes=False", "--not-swapped").replace("force=True", "--force")
    return re.sub(rf"\b(?P<name>{KEYWORDS})=(?:'(?P<text>[^']*)'|(?P<number>[\d.e-]*\d))?", option, text)


def _usage_error(error: Any) -> int:
    """Wrong options, as the parser reports them: in one line."""
    message: Callable[[], str] | None = getattr(error, "format_message", None)
    if message is None:
        return 0
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message())
        return 2
    command = context.command_path if context is not None else "lowkey"
    sentence = " ".join(message().split()).rstrip(".")
    _complain(f"{sentence}. Try {command} --help.")
    return 2


def _unexpected(error: Exception) -> int:
    if os.environ.get("LOWKEY_DEBUG"):
        traceback.print_exception(error)
        return 1
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"
    _complain(
        f"an unexpected {type(error).__name__} at {place}; its message is not shown, as it could quote private data. "
        "Try LOWKEY_DEBUG=1 on public data, and report it."
    )
    return 1


def _complain(text: str) -> None:
    print(f"lowkey: {printable(text)}", file=sys.stderr)


# By default these end Python at once, and a release that is half written would stay. (Private rows on disk have no name and
# go with the process, however it ends: data/scratch.py.)
TIDY = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF")


def leave_tidily(number: int, _: Any) -> None:
    for name in TIDY:  # whoever sends two must not interrupt the tidying
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    for name in TIDY:
        if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:  # as nohup leaves it
            signal.signal(getattr(signal, name), leave_tidily)
    sys.exit(run(sys.argv[1:]))
