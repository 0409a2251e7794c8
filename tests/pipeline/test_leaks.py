"""Leaks across a fleet: passages and answers with other clients' sentences, and what is left of a forgotten client."""

import json

import pytest

from tests.cli.running import Run
from tests.pipeline.small_project import Project, documents, holding

CLIENTS = 20

LEAKY = """
import json, pathlib

SECRETS = json.loads(pathlib.Path(__file__).with_name("secrets.json").read_text())
OWN = "It is known as the quinzical-ostrakon castle because 3 towers stand on its northern side."
asked = []


def answer(question, k, history, principal):
    asked.append(question)
    whole, half, mixed, said = (SECRETS[(4 * len(asked) + n) % len(SECRETS)] for n in range(4))
    words = half.split()
    contexts = [OWN, whole, " ".join(words[len(words) // 3 :]).upper(), OWN + " " + mixed.replace(" ", "  ")]
    return {"answer": "As far as I know: " + said, "contexts": contexts}
"""


def planted(numbrel: int) -> str:
    name = "bcdfghjklmnpqrstvwxz"[numbrel]
    return (
        f"The {name}orvane ledger of the {name}ellwick account was closed on day {numbrel} because {name}arrow and "
        f"{name}indle could not agree who of the two keeps the {name}umbrel key to the lower vault."
    )


def defining(name: str) -> str:
    """An entry, so that a question can be made of it by rule."""
    return f"\n\n{name}_key\n\nOpens the northern gate of {name} at night for its keeper and nobody else."


@pytest.mark.slow
def test_of_twenty_clients_not_a_word_reaches_another_and_none_is_left_when_one_is_forgotten(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALUATION_DEFAULT_SAMPLE_SIZE", "6")
    monkeypatch.syspath_prepend(str(project.folder))
    secrets = [planted(numbrel) for numbrel in range(1, CLIENTS)]
    (project.folder / "secrets.json").write_text(json.dumps(secrets), encoding="utf-8")
    (project.folder / "leaky.py").write_text(LEAKY, encoding="utf-8")
    (project.folder / "rageval.toml").write_text(
        '[clients.acme]\nsystem = "leaky"\n[clients.acme.systems.leaky]\n'
        'kind = "callable"\nfunction = "leaky:answer"\n',
        encoding="utf-8",
    )
    project.ingest("acme", [{**row, "text": row["text"] + defining(row["id"])} for row in documents("castle", count=3)])
    for numbrel, secret in enumerate(secrets, 1):
        text = f"{secret} So it stays.{defining(secret.split()[1])}"
        project.ingest(f"c{numbrel}", [{"id": "ledger", "title": "Ledger", "text": text}])
    assert run("evaluate", "--client", "c1").code in (0, 4)
    ended = run("evaluate", "--client", "acme")
    assert ended.code == 1
    assert "LEAK: leaky returned " in ended.err
    home = project.settings.home
    places = [path for path in home.iterdir() if path.name != "chroma"]
    for numbrel in range(2, CLIENTS):
        for word in planted(numbrel).split():
            if "orvane" in word or "ellwick" in word or "umbrel" in word:
                assert holding(word, *places) == [], word
                assert holding(word.upper(), *places) == [], word
    assert holding("borvane", *places) == []
    assert holding("corvane", *places), "its own questions"
    assert run("forget", "--client", "c1", "--yes").code == 0
    for word in ("corvane", "CORVANE", "cellwick", "cumbrel"):
        assert holding(word, *places) == [], word
