"""`rageval datasets` as a user meets it: questions brought, listed, taken away again and reviewed."""

import csv
import json
from pathlib import Path

import pytest

from rageval_dagster.benchmark.formats import FORMATS
from rageval_dagster.records import Candidate, Chunk, Evidence, Item
from rageval_dagster.report.contents import client_contents
from rageval_dagster.report.page import client_page
from rageval_dagster.settings.styles import STYLES
from rageval_dagster.storage.benchmark import current_datasets, save_candidates, save_dataset
from rageval_dagster.storage.clients import ensure_client
from tests.cli.running import Run, refused, stock
from tests.llm.scripted_model import fences, scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project, documents
from tests.storage.history_builder import MRR, finish, make_items, open_run

QUOTE = "The ferry leaves from the old harbour at nine."


@pytest.fixture
def stocked(project: Project) -> Project:
    """A project whose client `acme` has two documents, without the cost of embedding them."""
    castles = Chunk("c1", "The castle is closed.", "docs/castles.md")
    stock(project.settings, "acme", Chunk("c0", QUOTE, "docs/ferries.md"), castles)
    return project


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_logged_questions_by_columns_of_their_own(project: Project, run: Run) -> None:
    path = write(project.folder, "logged.csv", "when;Prompt;Team\n9:00;Where does the ferry go?;sales\n9:01;;sales\n")
    names = ["--map", "question=Prompt", "--map", "principal.team=Team"]
    ended = run("datasets", "import", path, "--client", "acme", "--format", "csv", *names)
    assert ended.code == 4
    assert "refused: logged.csv, row 3, field Prompt: is empty" in ended.err
    assert "columns not read: 'when'" in ended.err
    assert "evidence could not be checked" in ended.err
    assert "dataset 1 'logged': 1 question imported for acme" in ended.out
    [item] = json.loads(run("datasets", "show", 1, "--json").out)["items"]
    assert (item["origin"], item["principal"]) == ("logged", {"team": "sales"})


def test_a_dataset_that_nobody_wants_any_more_is_not_evaluated(project: Project, run: Run) -> None:
    path = write(project.folder, "own.jsonl", '{"question": "Who?", "answers": ["Ann."]}\n')
    assert run("datasets", "import", path, "--client", "acme").code == 0
    assert "acme / own is not evaluated any more" in run("datasets", "retire", "own", "--client", "acme").out
    [row] = json.loads(run("datasets", "list", "--json").out)
    assert not row["current"]
    assert row["retired"] is not None
    assert current_datasets(project.database(), "acme") == []
    assert run("datasets", "retire", "own", "--client", "acme", "--undo").code == 0
    assert [each.id for each in current_datasets(project.database(), "acme")] == [1]
    run("datasets", "retire", "own", "--client", "acme")
    refused(run("datasets", "retire", "mine", "--client", "acme"), "'mine'", "it has: own")
    assert run("datasets", "import", path, "--client", "acme").code == 0, "whoever imports it again wants it"
    assert [each.id for each in current_datasets(project.database(), "acme")] == [1]


def test_styles_are_for_questions_that_a_model_writes(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.ingest("acme", documents("lighthouse"))
    styled = ("datasets", "generate", "--client", "acme", "--sample-size", "2", "--style", "search")
    refused(run(*styled), "--style", "RAGEVAL_GENERATOR_MODEL")
    with ScriptedServer(scripted_model) as server:
        monkeypatch.setenv("RAGEVAL_GENERATOR_MODEL", "writer")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        refused(run(*styled, "--style", "x" * 201), "--style", "200 characters")
        assert run(*styled, "--style", "a nurse in a hurry").code == 0
        told = {style for each in server.requests for style in fences(each.text, "style").values()}
    assert told <= {STYLES["search"], "a nurse in a hurry"}
    assert told


def test_that_the_documents_give_fewer_questions_than_were_asked_for_is_said(project: Project, run: Run) -> None:
    project.ingest("acme", documents("lighthouse"))
    ended = run("datasets", "generate", "--client", "acme", "--name", "mine", "--sample-size", "100")
    assert "of the 100 questions wanted" in ended.err
    assert "every passage was tried: add documents" in ended.err
    refused(
        run("evaluate", "--client", "acme", "--dataset", "1", "--sample-size", "9"),
        "a dataset as it is",
        "--sample-size",
    )
    first = run("evaluate", "--client", "acme", "--sample-size", "100")
    assert "mine: " in first.err
    assert "of the 100 questions wanted" in first.err
    assert "add documents, use a model, or import questions" in first.out
    assert "--sample-size" not in first.out, "a larger one cannot help"


def test_a_generated_dataset_that_would_come_back_is_not_retired(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = project.database()
    ensure_client(db, "acme")
    items = [Item(question="Who?", answers=("Ann.",))]
    save_dataset(db, "acme", "synthetic", "generated", items, "extractive", None, True, {}, {})
    arguments = ["datasets", "retire", "synthetic", "--client", "acme"]
    refused(run(*arguments), "auto_generate_datasets = false under [clients.acme]")
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    assert run(*arguments).code == 0


def test_evidence_that_the_corpus_does_not_have_is_listed(stocked: Project, run: Run) -> None:
    rows = [
        {"question": question, "correct_answers": ["Nobody knows."], "correct_answer_document_ids": documents}
        for question, documents in (
            ("Where does it leave from?", ["c0"]),
            ("When does it leave?", ["wiki/ferries.md", "docs/castle.md"]),
            ("Who closed it?", ["docs/castle.md", "\x1b[31m" + "x" * 5000]),
        )
    ]
    path = write(stocked.folder, "own.json", rows)
    arguments = ["datasets", "import", path, "--client", "acme", "--format", "ai4rag", "--name", "own"]
    ended = run(*arguments, "--map-document", r"([^/]+)\.md$")
    assert ended.code == 0
    asked = "(2 questions, one is: When does it leave?)"
    assert f"the corpus has no document 'docs/castle.md' {asked}; nearest: 'docs/castles.md'" in ended.err
    assert "\x1b" not in ended.err
    assert "2 questions imported anyway" in ended.err
    printed = json.loads(run(*arguments, "--json").out)
    assert printed["dataset_id"] == 2
    assert (printed["imported"], printed["refused"], printed["evidence_checked"]) == (3, [], True)
    items = json.loads(run("datasets", "show", 2, "--json").out)["items"]
    assert items[0]["evidence"] == [{"document_id": "docs/ferries.md", "quote": QUOTE}]
    assert printed["unresolved"][0] == {
        "item_id": items[1]["item_id"],
        "question": items[1]["question"],
        "document_id": "wiki/ferries.md",
        "reason": "no_such_document",
        "nearest": ["docs/ferries.md"],
    }


def test_of_a_quote_that_is_not_there_no_ids_of_passages_are_said(stocked: Project, run: Run) -> None:
    evidence = {"document_id": "docs/ferries.md", "quote": "The boat of noon was burnt."}
    path = write(stocked.folder, "own.jsonl", {"question": "When?", "evidence": [evidence]})
    ended = run("datasets", "import", path, "--client", "acme", "--format", "native", "--name", "own")
    assert "the quote is not in the document 'docs/ferries.md' (question: When?)" in ended.err
    assert "nearest" not in ended.err


def test_questions_by_id_with_a_file_of_their_texts(project: Project, run: Run) -> None:
    truth = write(project.folder, "truth.json", {"Test_1": {"answer": "At nine.", "document": {"ferries.pdf": [3]}}})
    queries = write(project.folder, "queries.json", {"Test_1": "When does the ferry leave?"})
    options = ("--client", "acme", "--format", "test-results", "--queries", queries, "--json")
    assert json.loads(run("datasets", "import", truth, *options).out)["imported"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--map", "Prompt"], ["--map takes FIELD=COLUMN", "'Prompt'"]),
        (["--map", "question=a", "--map", "question=b"], ["--map names the field 'question' twice"]),
        (["--map", "question=b"], ["'b'", "--map question=b names"]),
        (["--map", "frage=question"], ["--map frage=question", "takes item_id, question"]),
        (["--map-document", "("], ["--map-document '('"]),
        (["--queries", "q.json"], ["--queries is for the formats"]),
        (["--format", "xml"], ["unknown format 'xml'"]),
        (["--client", "a\nb"], ["control character"]),
    ],
)
def test_a_wrong_option_is_one_clear_line(project: Project, run: Run, arguments: list[str], words: list[str]) -> None:
    path = write(project.folder, "own.jsonl", '{"question": "Who?"}\n')
    refused(run("datasets", "import", path, "--client", "acme", *arguments), *words)
    assert json.loads(run("datasets", "list", "--json").out) == []
    assert json.loads(run("status", "--json").out) == []


def test_show_names_the_offenders_of_each_rule(project: Project, run: Run) -> None:
    rows = ['{"question": "Is it closed today or not?"}', '{"question": "When \x1b[31m\u202edoes the ferry leave?"}']
    path = write(project.folder, "own.jsonl", "\n".join(rows).replace("\x1b", "\\u001b"))
    assert run("datasets", "import", path, "--client", "acme").code == 0
    printed = json.loads(run("datasets", "show", 1, "--json").out)
    first, second = (item["item_id"] for item in printed["items"])
    assert printed["offenders"]["question_not_yes_no"] == [first]
    assert "question_not_yes_no" in printed["flagged"][first]
    [listed] = json.loads(run("datasets", "list", "--json").out)
    assert (listed["flagged"], listed["documents"], listed["topics_touched"]) == (len(printed["flagged"]), None, None)
    ended = run("datasets", "show", 1)
    assert f"question_not_yes_no: 1 ({first})" in ended.out
    assert second in ended.out
    assert not {"\x1b", "\u202e"} & set(ended.out)


def test_export_writes_the_whole_file_and_nothing_over_another(stocked: Project, run: Run) -> None:
    item = Item("When does it leave?", ("At nine.",), (Evidence("docs/ferries.md", None, QUOTE),), history=TURNS)
    tabbed = Item("Where does it go?", evidence=(Evidence("tab\there"),))
    path = write(stocked.folder, "own.jsonl", "\n".join(json.dumps(each.to_dict()) for each in (item, tabbed)))
    assert run("datasets", "import", path, "--client", "acme").code == 0
    for name in (name for name, each in FORMATS.items() if each.write and name != "beir"):
        out = stocked.folder / f"out-{name}"
        ended = run("datasets", "export", 1, "--format", name, "--out", out)
        assert ended.code == 0, ended.err
        assert "2 questions written" in ended.out
        assert FORMATS[name].carries in ended.out
        assert out.stat().st_mode & 0o777 == 0o600
        before = out.read_bytes()
        refused(run("datasets", "export", 1, "--format", name, "--out", out), "--force")
        assert run("datasets", "export", 1, "--format", name, "--out", out, "--force").code == 0
        assert out.read_bytes() == before
    options = ("--client", "acme", "--format", "csv", "--name", "own")
    assert run("datasets", "import", stocked.folder / "out-csv", *options).code == 0
    assert [row["id"] for row in json.loads(run("datasets", "list", "--json").out)] == [1]
    folder = stocked.folder / "beir"
    refused(run("datasets", "export", 1, "--format", "beir", "--out", folder), "tab or line break")
    refused(run("datasets", "export", 1, "--format", "judged", "--out", folder), "'judged' is only read")
    refused(run("datasets", "export", 9, "--out", folder), "there is no dataset 9")
    refused(run("datasets", "export", 1, "--out", folder / "a" / "b.jsonl"), "is not a folder")
    assert not folder.exists()
    assert [file.name for file in stocked.folder.iterdir() if file.name.startswith(".rageval-")] == []


TURNS = ({"role": "user", "content": "Tell me about ferries."},)


def test_export_into_a_folder_leaves_other_files_alone(project: Project, run: Run) -> None:
    path = write(project.folder, "own.jsonl", '{"question": "Who?", "evidence": [{"document_id": "a"}]}')
    assert run("datasets", "import", path, "--client", "acme").code == 0
    folder = project.folder / "beir"
    assert run("datasets", "export", 1, "--format", "beir", "--out", folder).code == 0
    write(folder, "corpus.jsonl", "theirs")
    (folder / "qrels.tsv").unlink()
    refused(run("datasets", "export", 1, "--format", "beir", "--out", folder), "queries.jsonl is there already")
    assert not (folder / "qrels.tsv").exists()
    assert run("datasets", "export", 1, "--format", "beir", "--out", folder, "--force").code == 0
    assert sorted(file.name for file in folder.iterdir()) == ["corpus.jsonl", "qrels.tsv", "queries.jsonl"]
    assert run("datasets", "import", folder, "--client", "acme", "--format", "beir").code == 0
    refused(run("datasets", "export", 1, "--format", "beir", "--out", path), "is a file")


@pytest.mark.parametrize("blocked", [False, True])
def test_show_says_what_rules_with_offenders_mean(project: Project, run: Run, blocked: bool) -> None:
    db = project.database()
    ensure_client(db, "acme")
    items = [Item("Is it closed today or not?", ("No.",), origin="extractive")]
    failures = {"question_not_yes_no": 1} if blocked else {"categories_covered": 1}
    save_dataset(db, "acme", "synthetic", "generated", items, "rules", None, not blocked, failures, {})
    shown = run("datasets", "show", 1).out
    assert ("It is valid all the same: these rules only warn." in shown) is not blocked
    assert ("It is not valid: while it breaks a blocking rule" in shown) is blocked
    assert ("question_not_yes_no (blocking): 1" in shown) is blocked


def test_import_and_ingest_say_that_a_client_is_new_where_another_may_be_meant(stocked: Project, run: Run) -> None:
    def said(client: str, *arguments: object) -> str:
        ended = run(*arguments, "--client", client)
        assert ended.code == 0, ended
        return ended.err

    questions = write(stocked.folder, "questions.csv", "question,answer\nWhen does the ferry leave?,At nine.\n")
    texts = stocked.folder / "texts"
    texts.mkdir()
    write(texts, "ferry.md", "The ferry leaves at nine.\n")
    asked, loaded = ("datasets", "import", questions, "--format", "csv"), ("ingest", texts)
    line = "acmee is a new client; if acme is meant: rageval forget --client acmee"
    assert line in said("acmee", *asked)
    assert "is a new client" not in said("acmee", *loaded), "it is known by now"
    assert line.replace("acmee", "acmes") in said("acmes", *loaded)
    assert "Acme is a new client; if acme is meant" in said("Acme", *loaded)
    for other in ("harbour", "harbour-2", "harbour-de", "harbour-es"):  # as unlike, and of a row of customers
        assert "is a new client" not in said(other, *loaded)
    assert run("forget", "--client", "acmee", "--yes").code == 0


def test_a_review_from_the_command_line(stocked: Project, run: Run) -> None:
    db = stocked.database()
    ensure_client(db, "acme")
    items = [Item(f"Question number {n} about the ferry?", ("At nine.",), origin="extractive") for n in range(3)]
    save_dataset(db, "acme", "synthetic", "generated", items, "rules", None, True, {}, {})
    path = stocked.folder / "review.csv"
    ended = run("datasets", "review", "--client", "acme", "--out", path)
    assert ended.code == 0
    assert "3 questions written" in ended.out
    refused(run("datasets", "review", "--client", "acme", "--out", path), "--force")
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    decision, question = header.index("decision"), header.index("question")
    rows[0][decision], rows[1][decision] = "accept", "reject"
    rows[2][question] = "Changed?"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    ended = run("datasets", "review", "--client", "acme", "--read", path, "--json")
    assert ended.code == 4
    printed = json.loads(ended.out)
    assert printed["decided"] == {"accept": 1, "edit": 0, "reject": 1}
    assert [(row["row"], row["field"]) for row in printed["refused"]] == [(4, "question")]
    assert printed["questions"] == 2
    shown = run("datasets", "show", printed["dataset_id"]).out
    assert "human-verified" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--out FILE.csv", "--read FILE.csv"]),
        (["--out", "a.csv", "--read", "a.csv"], ["either"]),
        (["--out", "a.csv"], ["'nobody' is not known"]),
    ],
)
def test_a_review_of_nothing_is_refused(project: Project, run: Run, arguments: list[str], words: list[str]) -> None:
    refused(run("datasets", "review", "--client", "nobody", *arguments), *words)


def test_an_import_says_what_it_replaces(project: Project, run: Run) -> None:
    path = write(project.folder, "own.jsonl", '{"question": "Who?", "answers": ["Ann."]}\n')
    assert "replaces" not in run("datasets", "import", path, "--client", "acme").out
    write(project.folder, "own.jsonl", '{"question": "When?", "answers": ["At nine."]}\n')
    ended = run("datasets", "import", path, "--client", "acme")
    assert "it replaces dataset 1 of that name, with 1 question" in ended.out
    assert "replaces" not in run("datasets", "import", path, "--client", "acme").out, "the same again"


def test_why_there_are_few_questions_is_told_in_words(project: Project, run: Run) -> None:
    db = project.database()
    items = make_items(2)
    ensure_client(db, "acme")
    failed = [Candidate(f"k{n}", "extractive/1", 0, "failed", reasons=("no_question",)) for n in range(34)]
    save_candidates(db, "acme", failed)
    stats = {"generator": "extractive/1", "sample_size": 45, "passages": 36, "passages_left": 0}
    dataset = save_dataset(db, "acme", "synthetic", "generated", items, "a test", None, True, {}, stats)
    shown = run("datasets", "show", dataset.id).out
    assert (
        "36 passages gave 2 of the 45 questions wanted; the others most often define nothing that can be asked about "
        "without a model; every passage was tried: add documents, use a model, or import questions\n"
    ) in shown
    finish(db, open_run(db, dataset, "n1"), {MRR: 1.0})
    page = client_page(client_contents(db, project.settings, "acme"))
    assert "the others most often define nothing that can be asked about without a model" in page
    assert "No written question was kept out" in page
