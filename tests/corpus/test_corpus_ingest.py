"""Ingestion: what did not change stays, what changed is renewed, what is gone is removed, and nothing else."""

import json
import re
from pathlib import Path

import pytest

from rageval_dagster.corpus.ingest import IngestReport, Refusal, ingest
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.errors import EmbeddingError, IngestError
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings
from tests.corpus.conftest import their_collection
from tests.corpus.hostile_files import SLOW_ROW
from tests.language_samples import SENTENCES


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "guide").mkdir(parents=True)
    (folder / "intro.md").write_text("# Intro\n\nWelcome to the product.\n")
    (folder / "guide" / "install.md").write_text("# Install\n\nRun the installer.\n\n# Remove\n\nRun it again.\n")
    (folder / "notes.txt").write_text("Some notes.")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    (folder / ".hidden.md").write_text("not for reading")
    return folder


def stored(store: ChromaStore, client: str = "acme") -> dict[str, Chunk]:
    return {chunk.id: chunk for page in store.scan(client) for chunk in page.chunks}


def documents(store: ChromaStore, client: str = "acme") -> set[str]:
    return {chunk.document_id for chunk in stored(store, client).values()}


def counts(report: IngestReport) -> tuple[int, int, int, int]:
    return report.documents, report.added, report.unchanged, report.removed


def test_before_anything_is_embedded_a_model_that_knows_english_alone_is_warned_of(
    store: ChromaStore, tmp_path: Path, embedder
) -> None:
    told: list[tuple[str, int]] = []

    def load(name: str) -> None:
        embedder.name = name
        ingest(tmp_path, "acme", store, embedder, warn=lambda said: told.append((said, len(embedder.encoded))))

    (tmp_path / "fluss.md").write_text(" ".join(SENTENCES["de"]))
    load("paraphrase-multilingual-MiniLM-L12-v2")
    assert told == []
    embedder.encoded.clear()
    load("all-MiniLM-L6-v2")
    [(said, embedded)] = told
    assert embedded == 0
    assert said.startswith("all-MiniLM-L6-v2 knows English alone")
    assert "German (100%)" in said
    load("all-MiniLM-L6-v2")  # unchanged: nothing is embedded
    (tmp_path / "river.md").write_text(SENTENCES["en"][0])
    load("all-MiniLM-L6-v2")
    assert len(told) == 1


def test_a_new_client_is_none_before_it_has_chunks(
    store: ChromaStore, settings: Settings, docs: Path, embedder
) -> None:
    """Sensor and schedule take each client in the store for one that can be evaluated."""
    chunks: list[list[int]] = []

    def seen(*_: object) -> None:
        there = open_store(settings)
        chunks.append([there.count(client) for client in there.clients()])

    ingest(docs, "acme", store, embedder, progress=seen)
    assert chunks[0] == []
    assert [0] not in chunks
    assert store.count("acme") == 3


class TestLoading:
    def test_a_folder(self, store: ChromaStore, docs: Path, embedder) -> None:
        seen: list[tuple[int, int, str]] = []
        report = ingest(docs, "acme", store, embedder, progress=lambda *told: seen.append(told))
        assert counts(report) == (3, 3, 0, 0)
        assert (report.refused, report.ignored, report.foreign_store) == ([], 1, False)
        assert documents(store) == {"intro.md", "guide/install.md", "notes.txt"}
        assert (3, 3, "embedding guide/install.md (0 of 3 passages)") in seen, "however soon after the reading"
        assert seen[-1] == (3, 3, "")
        for chunk in stored(store).values():
            assert chunk.position == 0
            assert chunk.added_at is not None
        assert json.dumps(report.to_dict())

    def test_what_pages_leave_out_is_kept_with_their_first_chunk_once_a_site(
        self, store: ChromaStore, tmp_path: Path, embedder
    ) -> None:
        menu = "<nav>Home Our teas How to steep them Opening hours Contact and imprint</nav>"
        for name in ("a", "b"):
            text = f"{menu}<nav>All about tea number {name} here</nav><main><h1>Tea {name}</h1><p>It steeps.</main>"
            (tmp_path / f"{name}.html").write_text(text)

        def left_out() -> dict[str, str]:
            return {chunk.text: chunk.left_out for chunk in stored(store).values() if chunk.left_out}

        ingest(tmp_path, "acme", store, embedder)
        of_menu = "Home Our teas How to steep them Opening hours Contact and imprint All about tea number a here"
        # Runs of six words that no page before it has, across the end of the menu too.
        of_other = "imprint All about tea number b here"
        for again in (False, False, True):
            assert left_out() == {"# Tea a\n\nIt steeps.": of_menu, "# Tea b\n\nIt steeps.": of_other}
            ingest(tmp_path, "acme", store, embedder, embed_again=again)
        (tmp_path / "a.html").unlink()
        (tmp_path / "b.html").write_text((tmp_path / "b.html").read_text().replace("<main>", "<main><h2>New</h2>In. "))
        ingest(tmp_path, "acme", store, embedder, chunk_size=20, overlap=0)
        assert list(left_out()) == [min(stored(store).values(), key=lambda chunk: chunk.position or 0).text]
        ingest(tmp_path, "acme", store, embedder)
        (tmp_path / "b.html").write_text(re.sub("<nav>.*</nav>", "", (tmp_path / "b.html").read_text()))
        embedder.encoded.clear()
        ingest(tmp_path, "acme", store, embedder)
        assert embedder.encoded == [], "the text is as it was"
        assert left_out() == {}
        assert counts(ingest(tmp_path, "acme", store, embedder))[1:] == (0, 1, 0)

    def test_who_waits_for_a_slow_file_is_told_which(
        self, store: ChromaStore, tmp_path: Path, embedder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The start of the process that reads it takes longer, on whatever machine.
        monkeypatch.setattr("rageval_dagster.corpus.reading.TICK_S", 0.01)
        (tmp_path / "slow.jsonl").write_text(SLOW_ROW)

        class Told(Exception):
            pass

        def tell(done: int, total: int, now: str) -> None:
            assert (done, total, now) == (0, 1, "reading slow.jsonl")
            raise Told

        with pytest.raises(Told):
            ingest(tmp_path, "acme", store, embedder, progress=tell)

    def test_pages_and_rows(self, store: ChromaStore, tmp_path: Path, embedder, make_pdf) -> None:
        (tmp_path / "a.pdf").write_bytes(make_pdf(["First page", "Second page"]))
        rows = [
            {"id": "r1", "title": "One", "text": "text one", "metadata": {"lang": "en", "added_at": "2024-05-01"}},
            {"id": "r2", "text": "text two", "metadata": {"page": 5}},
        ]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        report = ingest(tmp_path, "acme", store, embedder)
        assert report.documents == 3
        found = {chunk.text: chunk for chunk in stored(store).values()}
        assert [(found[text].document_id, found[text].page) for text in ("First page", "Second page")] == [
            ("a.pdf", 1),
            ("a.pdf", 2),
        ]
        added_at = found["One\ntext one"].added_at
        assert added_at is not None
        assert added_at.date().isoformat() == "2024-05-01"
        assert found["text two"].page == 5

    def test_several_clients_in_one_collection(self, settings, docs: Path, embedder) -> None:
        shared = settings.model_copy(update={"client_field": "tenant"})
        for client in ("acme", "beta"):
            ingest(docs, client, open_store(shared), embedder)
        (docs / "notes.txt").unlink()
        assert counts(ingest(docs, "acme", open_store(shared), embedder)) == (2, 0, 2, 1)
        store = open_store(shared)
        assert store.clients() == ["acme", "beta"]
        assert documents(store) == {"intro.md", "guide/install.md"}
        assert documents(store, "beta") == {"intro.md", "guide/install.md", "notes.txt"}


class TestLoadingAgain:
    def test_nothing_is_renewed_when_nothing_changed(self, store: ChromaStore, settings, docs: Path, embedder) -> None:
        ingest(docs, "acme", store, embedder)
        before = stored(store)
        embedder.encoded.clear()
        again = open_store(settings)
        assert counts(ingest(docs, "acme", again, embedder)) == (3, 0, 3, 0)
        assert embedder.encoded == []
        assert stored(again) == before

    def test_an_edit_renews_the_chunk_it_touches(self, store: ChromaStore, tmp_path: Path, embedder) -> None:
        path = tmp_path / "a.md"
        parts = [f"# Part {number}\n\nText {number}." for number in range(5)]
        path.write_text("\n\n".join(parts))
        ingest(path, "acme", store, embedder, chunk_size=30, overlap=0)
        before = stored(store)
        parts[0] = "# Part 0\n\nEdited."
        parts.insert(1, "# New\n\nInserted.")
        path.write_text("\n\n".join(parts))
        embedder.encoded.clear()
        report = ingest(path, "acme", store, embedder, chunk_size=30, overlap=0)
        assert counts(report) == (1, 2, 4, 1)
        assert sorted(embedder.encoded) == ["# New\n\nInserted.", "# Part 0\n\nEdited."]
        after = stored(store)
        assert len(before.keys() & after.keys()) == 4
        for chunk_id in before.keys() & after.keys():
            assert after[chunk_id].added_at == before[chunk_id].added_at
            assert after[chunk_id].position == (before[chunk_id].position or 0) + 1

    def test_a_single_file_touches_its_own_document_alone(self, store: ChromaStore, docs: Path, embedder) -> None:
        ingest(docs, "acme", store, embedder)
        (docs / "notes.txt").unlink()
        (docs / "guide" / "install.md").write_text("# Install\n\nDownload it.\n")
        report = ingest(docs / "guide" / "install.md", "acme", store, embedder)
        assert counts(report) == (1, 1, 0, 1)
        assert documents(store) == {"intro.md", "guide/install.md", "notes.txt"}

    def test_a_subfolder_keeps_the_ids_and_removes_only_its_own(self, store: ChromaStore, docs: Path, embedder) -> None:
        ingest(docs, "acme", store, embedder)
        (docs / "notes.txt").unlink()
        (docs / "guide" / "install.md").rename(docs / "guide" / "setup.md")
        ingest(docs / "guide", "acme", store, embedder)
        assert documents(store) == {"intro.md", "guide/setup.md", "notes.txt"}

    def test_a_folder_elsewhere_removes_nothing(self, store: ChromaStore, docs: Path, tmp_path, embedder) -> None:
        ingest(docs, "acme", store, embedder)
        other = tmp_path / "other"
        other.mkdir()
        (other / "more.md").write_text("More.")
        report = ingest(other, "acme", store, embedder)
        assert counts(report) == (1, 1, 0, 0)
        assert report.elsewhere == 3
        assert documents(store) == {"intro.md", "guide/install.md", "notes.txt", "more.md"}
        (docs / "notes.txt").unlink()
        report = ingest(docs, "acme", store, embedder)
        assert counts(report) == (2, 0, 2, 1)
        assert (report.removed_documents, report.elsewhere) == (["notes.txt"], 1)
        (other / "intro.md").write_text("# Intro\n\nAnother one.\n")
        assert ingest(other, "acme", store, embedder).elsewhere == 1, "the intro is of the other folder now"

    def test_the_first_file_of_a_client_is_named_by_its_name(self, store, docs: Path, embedder) -> None:
        ingest(docs / "guide" / "install.md", "acme", store, embedder)
        assert documents(store) == {"install.md"}

    def test_what_cannot_be_read_just_now_stays(self, store: ChromaStore, tmp_path: Path, embedder, make_pdf) -> None:
        (tmp_path / "a.pdf").write_bytes(make_pdf(["A page"]))
        (tmp_path / "rows.jsonl").write_text('{"id": "a", "text": "first"}\n{"id": "b", "text": "second"}')
        (tmp_path / "c.txt").write_text("text")
        ingest(tmp_path, "acme", store, embedder)
        (tmp_path / "a.pdf").write_bytes(b"half a fi")
        (tmp_path / "latin.txt").write_bytes("Größe".encode("latin-1"))
        (tmp_path / "rows.jsonl").write_text('{"id": "a", "text": "fir\n{"id": "b", "text": "second"}')
        report = ingest(tmp_path, "acme", store, embedder)
        assert [refusal.file for refusal in report.refused] == ["a.pdf", "latin.txt", "rows.jsonl"]
        assert report.refused[0].reason.startswith("is not a readable PDF")
        assert report.refused[1].reason == "is not UTF-8 text"
        assert report.removed == 0
        assert documents(store) == {"a.pdf", "a", "b", "c.txt"}
        (tmp_path / "rows.jsonl").write_text('{"id": "b", "text": "second"}')
        ingest(tmp_path, "acme", store, embedder)
        assert documents(store) == {"a.pdf", "b", "c.txt"}, "a row that is gone is removed"

    def test_another_model_embeds_everything_again(self, store: ChromaStore, docs: Path, embedder) -> None:
        ingest(docs, "acme", store, embedder)
        before = stored(store)
        newer = type(embedder)(version="2")
        assert counts(ingest(docs, "acme", store, newer)) == (3, 3, 0, 0)
        [chunk_id, *_] = before
        vector = store.vectors("acme", [chunk_id])[0]
        assert vector @ newer.encode([before[chunk_id].text])[0] == pytest.approx(1, abs=1e-5)
        assert stored(store).keys() == before.keys()

    def test_damaged_vectors_are_mended_where_that_is_asked_for(self, store: ChromaStore, docs: Path, embedder) -> None:
        ingest(docs, "acme", store, embedder)
        right = {id: store.vectors("acme", [id]).tobytes() for id in stored(store)}
        chunks = list(stored(store).values())
        store.upsert(
            "acme", chunks, -embedder.encode([chunk.text for chunk in chunks]), [{"damaged": 1} for _ in chunks]
        )
        assert counts(ingest(docs, "acme", store, embedder, embed_again=True)) == (3, 3, 0, 0)
        assert {id: store.vectors("acme", [id]).tobytes() for id in stored(store)} == right

    def test_an_ingestion_that_was_killed_is_finished_by_the_next(
        self, store: ChromaStore, docs: Path, embedder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ingest(docs, "acme", store, embedder)
        (docs / "intro.md").write_text("# Intro\n\nAnother text.\n")

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(store, "delete", die)
        with pytest.raises(KeyboardInterrupt):
            ingest(docs, "acme", store, embedder)
        monkeypatch.undo()
        ingest(docs, "acme", store, embedder)
        assert sorted(chunk.text[:9] for chunk in stored(store).values()) == ["# Install", "# Intro\n\n", "Some note"]


class TestRefusing:
    def test_a_bad_row_is_named_and_the_rest_goes_on(self, store: ChromaStore, tmp_path: Path, embedder) -> None:
        path = tmp_path / "rows.jsonl"
        path.write_text(
            '{"id": "a", "text": "first"}\n{"id": "b"}\n{"id": "a", "text": "again"}\n{"id": "c", "text": "x"}'
        )
        report = ingest(path, "acme", store, embedder)
        assert report.refused == [
            Refusal("rows.jsonl", "row 2: field 'text' takes a text"),
            Refusal("rows.jsonl", "document id 'a' occurred before; the first is kept"),
        ]
        assert documents(store) == {"a", "c"}

    def test_nothing_to_load_makes_no_client(self, store: ChromaStore, tmp_path: Path, embedder) -> None:
        empty, others, broken = (tmp_path / name for name in ("empty", "others", "broken"))
        for folder in (empty, others, broken):
            folder.mkdir()
        (others / "a.png").write_bytes(b"x")
        (broken / "a.pdf").write_bytes(b"x")
        for path, message in (
            (tmp_path / "nowhere", "there is no file or folder .*nowhere"),
            (empty, r"empty holds no .md, .* file \(0 others\)"),
            (others, r"others holds no .md, .* file \(1 others\)"),
            (others / "a.png", "a.png is not a .md,"),
            (broken, "nothing could be loaded, 1 refused; the first: a.pdf is not a readable PDF"),
        ):
            with pytest.raises(IngestError, match=message) as caught:
                ingest(path, "acme", store, embedder)
            assert "\n" not in str(caught.value)
        assert store.clients() == []

    def test_links_are_followed_inside_the_folder_only(self, store: ChromaStore, docs: Path, embedder) -> None:
        (docs / "again.md").symlink_to("intro.md")
        (docs / "round").symlink_to(docs)
        (docs / "itself.md").symlink_to("itself.md")
        (docs / "out.md").write_text("A file of ours.")
        ingest(docs, "acme", store, embedder)
        outside = docs.parent / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text("Not to be read.")
        (docs / "out.md").unlink()
        (docs / "out.md").symlink_to(outside / "secret.md")
        (docs / "guide").rename(docs.parent / "guide")
        (docs / "guide").symlink_to(docs.parent / "guide")
        report = ingest(docs, "acme", store, embedder)
        out = "is a link that leads out of the folder: to load its target, copy that here"
        assert report.refused == [
            Refusal("guide", out),
            Refusal("out.md", out),
            Refusal("itself.md", "cannot be read (Too many levels of symbolic links)"),
        ]
        assert report.removed == 0, "what cannot be read just now stays, also below a folder"
        assert documents(store) == {"intro.md", "again.md", "notes.txt", "guide/install.md", "out.md"}

    @pytest.mark.parametrize(("size", "overlap"), [(-1, 0), (100, 100), (100, 200), (100, -1)])
    def test_impossible_sizes(self, store: ChromaStore, docs: Path, embedder, size: int, overlap: int) -> None:
        with pytest.raises(IngestError, match=f"chunk size {size} with overlap {overlap} is not possible"):
            ingest(docs, "acme", store, embedder, chunk_size=size, overlap=overlap)

    def test_another_dimension_is_refused_before_anything_is_written(self, store: ChromaStore, docs, embedder) -> None:
        ingest(docs, "acme", store, embedder)
        (docs / "intro.md").write_text("Changed.")
        before = stored(store)
        with pytest.raises(EmbeddingError, match="32 dimensions"):
            ingest(docs, "acme", store, type(embedder)(dimension=48))
        assert stored(store) == before

    def test_another_model_s_collection_is_not_polluted(
        self, store: ChromaStore, settings, docs: Path, embedder
    ) -> None:
        theirs = their_collection(settings)
        texts = [f"their text {number}" for number in range(8)]
        theirs.upsert(ids=[str(number) for number in range(8)], embeddings=embedder.encode(texts), documents=texts)
        with pytest.raises(EmbeddingError, match="are not from"):
            ingest(docs, "theirs", store, type(embedder)(version="2"))
        assert store.count("theirs") == 8
        assert ingest(docs, "theirs", store, embedder).added == 3
        assert store.count("theirs") == 11
