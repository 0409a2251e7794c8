"""docs/troubleshooting.md: every message of the program stands in it and no other, all advice, and real commands."""

import ast
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import typer
from typer import core

from rageval_dagster import errors
from rageval_dagster.cli.app import app
from rageval_dagster.report import advice
from tests.docs.pages import ROOT, text_of
from tests.docs.pages import commands as typed_commands

SOURCE = ROOT / "rageval_dagster"
PAGE = "docs/troubleshooting.md"
TEXT = text_of(PAGE)
BEFORE, EVERY_MESSAGE = TEXT.split("\n## Every message\n")

CALLS = {
    **{name: 0 for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)},
    **dict.fromkeys(("kind", "UnusableReplyError", "ReadError", "BrokenStreamError", "_WrongShapeError"), 0),
    **dict.fromkeys(("_TroubleError", "_Trouble", "PatternError", "Failure", "dg.SkipReason", "waiting"), 0),
    **dict.fromkeys(("Outcome.undefined", "Outcome.error", "NoDraftError", "kept.append", "bench.warn", "Rule"), 0),
    "problems.append": 0,
    **dict.fromkeys(("self._client.error", "chat.error"), 0),
    **dict.fromkeys(("RowError", "HTTPException", "instance.report_run_failed"), 1),
}
"""What is called with a message, and which of its arguments that is."""

ARGUMENTS = {"Retrieval": "error"}
"""What is called with a message under this name."""

PARTS = {
    "automation/alerts.py": {"after_run", "_renew_page"},
    "automation/forgetting.py": {"_delete_runs"},
    "automation/launch.py": {"_innermost"},
    "benchmark/coverage.py": {"Lack"},
    "benchmark/critics.py": {
        *("NOT_ANSWERABLE", "NOT_SELF_CONTAINED", "NOT_CORRECT", "KNOWN"),
        *("ONE_IS_ENOUGH", "ANSWERED", "WRONG_LANGUAGE", "UNSEEN"),
    },
    "benchmark/drafts.py": {"NOT_UNDERSTOOD"},
    "benchmark/extractive.py": {"_write"},
    "benchmark/generators.py": {"MODEL_FAILED"},
    "benchmark/renewal.py": {"RETIRED"},
    "cli/evaluate.py": {
        *("failed_questions", "failed_metrics", "metric_errors", "nowhere_defined", "leak", "unknown_chunks"),
    },
    "corpus/places.py": {"_chosen_out", "_unfit", "left_out_by_pattern"},
    "evaluation/comparing.py": {
        *("JUDGED_ANEW", "OTHER_JUDGE", "NOT_BOTH", "NOT_IN_BASELINE", "NOT_MEASURED", "lacking"),
    },
    "evaluation/recorded.py": {"_no_judge"},
    "functions.py": {"trouble"},
    "llm/session.py": {"what"},
    "monitoring/gate.py": {"remark"},
    "monitoring/webhook.py": {"_post", "post", "trouble", "WRONG_SETTINGS"},
    "rag/recorded.py": {"_trouble"},
    "resources/textless.py": {"_described"},
    "settings/loading.py": {"takes", "kinds"},
    "settings/model.py": {"unset"},
}
"""Functions that give, and variables that hold, what messages are made of."""

SPOKEN_VALUE_ERRORS = ("settings/model.py", "settings/systems.py", "settings/templates.py")
"""Where a ValueError is what a setting takes; elsewhere it is for programmers."""

FOR_PROGRAMMERS = {"ValueError", "TypeError", "LookupError", "AttributeError", "RuntimeError"}
PASSED_ON = {"ModelFailedError", "UnexpectedError"}
"""Raised with what is collected where it is made."""

NEVER_SEEN = {"a value that means another folder"}
"""Caught where it is raised, and said otherwise."""

GAP = "…"
"""What stands for a part of a message that varies."""

Known = Mapping[str, ast.expr]
"""What names stand for: {name: the one value that it ever gets}."""


def templates(node: ast.expr | None, known: Known) -> list[str]:
    """The texts that an expression may be, one for each branch; none where it is no text that stands here."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return joined(parts, known)
        case ast.FormattedValue(value=value):
            return templates(value, known)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return joined([left, right], known)
        case ast.IfExp(body=body, orelse=other) | ast.BoolOp(values=[body, other]):
            return [text for branch in (body, other) for text in templates(branch, known) or [GAP]]
        case ast.Name(id=name) if name in known:
            return templates(known[name], {other: value for other, value in known.items() if other != name})
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return [re.sub(r"{.*?}", GAP, each) for each in templates(text, known)]
        case ast.Tuple(elts=several) | ast.List(elts=several) | ast.Dict(values=several):
            return [text for each in several for text in templates(each, known)]
        case ast.ListComp(elt=each) | ast.Subscript(value=ast.Name(id="Literal"), slice=each):
            return templates(each, known)
    return []


def joined(parts: list[ast.expr], known: Known) -> list[str]:
    """The texts of parts that follow one another; a part that is no text is a gap."""
    return ["".join(choice) for choice in itertools.product(*(templates(part, known) or [GAP] for part in parts))]


def normalised(message: str) -> str:
    """The message with one blank between words, and one gap where several touch."""
    return re.sub(f"{GAP}+", GAP, " ".join(message.split()))


def assigned(body: list[ast.AST]) -> dict[str, ast.expr]:
    """The names that get one value, and what it is."""
    found: dict[str, list[ast.expr]] = {}
    for node in body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                found.setdefault(name, []).append(value)
            case (
                ast.AugAssign(target=ast.Name(id=name), value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                found.setdefault(name, []).extend((value, value))
            case ast.arg(arg=name):
                found.setdefault(name, []).extend((ast.Constant(None), ast.Constant(None)))
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def scopes(module: ast.Module) -> Iterator[tuple[list[ast.AST], Known]]:
    """Every function with all that is in it, and the rest of the module, each with what its names stand for."""
    constants = assigned(list(module.body))
    functions = [
        node
        for holder in (module, *(node for node in module.body if isinstance(node, ast.ClassDef)))
        for node in holder.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    inside: set[ast.AST] = set()
    for function in functions:
        nodes = list(ast.walk(function))
        inside.update(nodes)
        yield nodes, {**constants, **assigned(nodes)}
    yield [node for node in ast.walk(module) if node not in inside], constants


def said_in(node: ast.AST, calls: Mapping[str, int], parts: set[str]) -> Iterator[ast.expr]:
    """The expressions in a node that are messages."""
    match node:
        case ast.Call(func=function, args=arguments, keywords=keywords):
            name = ast.unparse(function)
            if len(arguments) > calls.get(name, len(arguments)):
                yield arguments[calls[name]]
            yield from (keyword.value for keyword in keywords if keyword.arg == ARGUMENTS.get(name, ""))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in parts:
            yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)
        case ast.Assign(targets=[target], value=value):
            names = {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
            if names & parts:
                yield value.elts[0] if isinstance(value, ast.Tuple) else value


def messages_of(path: Path) -> set[str]:
    """The messages of a module."""
    name = path.relative_to(SOURCE).as_posix()
    calls = CALLS | ({"ValueError": 0} if name in SPOKEN_VALUE_ERRORS else {})
    return {
        normalised(text)
        for nodes, known in scopes(ast.parse(path.read_text(encoding="utf-8")))
        for node in nodes
        for said in said_in(node, calls, PARTS.get(name, set()))
        for text in templates(said, known)
    }


MESSAGES = {
    message
    for path in sorted(SOURCE.rglob("*.py"))
    for message in messages_of(path)
    if re.search("[a-z]", message) and message not in NEVER_SEEN
}


# --- the page ---------------------------------------------------------------------------------------------------------


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables in a text, without their heads."""
    for line in re.findall(r"^\| (.*) \|$", text, flags=re.MULTILINE):
        cells = re.split(r"(?<!\\)\|", line)
        if cells[0].strip() not in ("message", "low", "likely cause", "what you see"):
            yield [cell.strip().replace("\\|", "|") for cell in cells]


def spans(text: str) -> list[str]:
    """What stands as code in a text."""
    return [code.strip() for _, code in re.findall(r"(`+)(.+?)\1(?!`)", text)]


SHOWN = [message for first, *_ in rows(EVERY_MESSAGE) for message in spans(first)]


def test_no_other_class_of_error_is_raised() -> None:
    nodes = [node for path in SOURCE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    raised = {
        ast.unparse(node.exc.func) for node in nodes if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    }
    named = {name for name in raised if name.endswith(("Error", "Exception"))}
    assert named - set(CALLS) - FOR_PROGRAMMERS - PASSED_ON == set()


def test_every_message_of_the_program_stands_in_the_page() -> None:
    assert sorted(MESSAGES - set(SHOWN)) == []


def test_every_message_of_the_page_is_one_of_the_program() -> None:
    assert sorted(set(SHOWN) - MESSAGES) == []


def test_no_message_stands_twice() -> None:
    assert [message for message, count in Counter(SHOWN).items() if count > 1] == []


def test_every_message_says_what_to_do() -> None:
    assert [first for first, *others in rows(EVERY_MESSAGE) if len(others) != 1 or not others[0]] == []


def advised() -> list[advice.Advice]:
    """All advice of the module, whatever holds it."""
    values = itertools.chain.from_iterable(
        value if isinstance(value, tuple) else [value] for value in vars(advice).values()
    )
    return [value for value in values if isinstance(value, advice.Advice)]


@pytest.mark.parametrize("each", advised(), ids=lambda each: each.cause[:40])
def test_the_advice_of_the_report_stands_in_one_row(each: advice.Advice) -> None:
    wanted = {*each.low, *each.high}
    assert any(
        (each.cause, each.action) == tuple(cells[-2:])
        and {name.replace("{k}", "k") for name in wanted} == set(spans(" ".join(cells[:-2])))
        for cells in rows(BEFORE)
    )


def commands() -> list[str]:
    """The page's commands: those to be typed, and what stands as code in its text and in the last cells of tables."""
    text = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    said = [*(cells[-1] for cells in rows(text)), re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)]
    found = {*typed_commands(PAGE), *(code for each in said for code in spans(each))}
    return sorted(command for command in found if command.startswith("rageval "))


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_page_is_one_with_these_options(line: str) -> None:
    _, *words = shlex.split(line)
    command = typer.main.get_command(app)
    while isinstance(command, core.TyperGroup) and words:
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if re.match("--?[a-z]", word)} <= options
