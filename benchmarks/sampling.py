"""What samples cover: documents and topics by `random` and `diverse`, and how much `random` keeps when chunks change.

Usage: python benchmarks/sampling.py

On the demo's two corpora, cut as `rageval ingest` cuts them, and on clapnq (RAGEVAL_DATA_DIR), where a document is an
article and a chunk one of its passages.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

import numpy as np
from sklearn.cluster import KMeans

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from demo.documents import CLIENTS  # noqa: E402
from rageval_dagster.benchmark.sampling import draw_sample  # noqa: E402
from rageval_dagster.corpus.readers import Document, Section  # noqa: E402
from rageval_dagster.corpus.splitting import ChunkSize, split_document  # noqa: E402
from rageval_dagster.embedding.models import load_embedder  # noqa: E402
from rageval_dagster.identity import digest  # noqa: E402
from rageval_dagster.records import Chunk  # noqa: E402
from rageval_dagster.settings import Settings  # noqa: E402
from rageval_dagster.storage.corpus import ManifestEntry  # noqa: E402

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", ROOT / "../shared/data"))
SIZES = (50, 200)
CLUSTERS = 50
SEEDS = 10
CHANGED_SHARE = 0.01
TRIALS = 100


def corpora() -> Iterator[tuple[str, list[Chunk]]]:
    for client, rows in CLIENTS.items():
        documents = ((row["id"], Document([Section(f"{row['title']}\n{row['text']}")])) for row in rows())
        yield (
            client,
            [chunk for name, text in documents for chunk in split_document(client, name, text, ChunkSize(800, 120))],
        )
    if (DATA / "clapnq").is_dir():
        lines = (DATA / "clapnq" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        yield "clapnq", [Chunk(row["id"], f"{row['title']}\n{row['text']}", row["title"]) for row in rows]
    else:
        print(f"clapnq skipped: not in {DATA}; name the folder in RAGEVAL_DATA_DIR")


def manifest(chunks: list[Chunk]) -> list[ManifestEntry]:
    now = datetime.now(UTC)
    return [
        ManifestEntry(digest(c.id), c.id, c.document_id, c.page, c.position, c.text_hash, c.words_hash, None, None, now)
        for c in chunks
    ]


def share_kept(entries: list[ManifestEntry], size: int) -> float:
    """The mean share of a random sample that stays when the texts of 1 % of the chunks change."""
    kept = []
    for trial in range(TRIALS):
        before = draw_sample(entries, size, "random", trial)
        changed = list(entries)
        rows = np.random.default_rng(trial).choice(len(entries), round(CHANGED_SHARE * len(entries)), replace=False)
        for row in rows:
            changed[row] = replace(entries[row], text_hash=digest(f"changed {trial} {row}"))
        kept.append(len(set(before) & set(draw_sample(changed, size, "random", trial))) / len(before))
    return mean(kept)


def report(name: str, chunks: list[Chunk]) -> None:
    settings = Settings()
    vectors = load_embedder(settings.embedding_model, settings).encode([chunk.text for chunk in chunks])
    clusters = KMeans(CLUSTERS, n_init="auto", random_state=0).fit_predict(vectors)
    entries = manifest(chunks)
    row = {entry.chunk_key: number for number, entry in enumerate(entries)}
    print(
        f"\n{name}: {len(chunks)} chunks of {len({c.document_id for c in chunks})} documents (means of {SEEDS} seeds)"
    )
    for size in SIZES:
        for strategy in ("random", "diverse"):
            documents, topics, largest = [], [], []
            for seed in range(SEEDS):
                sample = draw_sample(
                    entries, size, strategy, seed, lambda some: vectors[[row[entry.chunk_key] for entry in some]]
                )
                counts = Counter(chunks[row[key]].document_id for key in sample)
                documents.append(len(counts))
                largest.append(max(counts.values()))
                topics.append(len({clusters[row[key]] for key in sample}))
            print(
                f"  {size:3d} chunks, {strategy:8s} {mean(documents):5.1f} documents, {mean(topics):4.1f} of "
                f"{CLUSTERS} clusters, at most {max(largest)} chunks of one document"
            )
        kept = share_kept(entries, size)
        print(f"  random keeps {kept:.1%} of {size} when 1 % of the chunks change (mean of {TRIALS} trials)")


if __name__ == "__main__":
    for corpus_name, corpus_chunks in corpora():
        report(corpus_name, corpus_chunks)
