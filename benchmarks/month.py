"""A month of a client's life in minutes: documents that change daily, one bad re-embedding, one other judge.

Run with `python benchmarks/month.py [--documents 100] [--items 300]`. Every day some documents are edited, deleted or
added, and the client is evaluated as on any night; every week its questions are renewed. On one day a tenth of the
vectors are shuffled, as by a broken re-embedding, and put right the day after; on another the judge is replaced by one
that finds a seventh fewer claims supported. The gate has to call the first a regression, on its day, and lay it to the
index, and say nothing of all the other days.

A scripted model writes the questions, answers and judges over HTTP on loopback; embedding, retrieval, store, history
and Dagster are the real ones.
"""

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.gate.decision import Judged, judged_before
from rageval_dagster.storage.evaluations import evaluations_of_trigger
from rageval_dagster.telling.verdicts import movement, what_changed
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project

from change_cost import document, places  # isort: skip

CLIENT = "acme"
DAYS = 30
BROKEN, MENDED, OTHER_JUDGE = 12, 13, 20
RENEWALS = (8, 15, 22, 29)
SHUFFLED = 0.1
HARSHER = 1 / 7
SEED = 5


@dataclass
class Corpus:
    """The documents as they are today: their numbers, and which edition of each."""

    names: list[str]
    editions: dict[int, int]
    rng: random.Random

    def live_a_day(self, day: int) -> str:
        edited = self.rng.sample(sorted(self.editions), 2)
        for number in edited:
            self.editions[number] += 1
        said = "2 edited"
        if day % 3 == 0:
            del self.editions[self.rng.choice(sorted(self.editions))]
            said += ", 1 deleted"
        if day % 2 == 0:
            self.editions[max(self.editions) + 1] = 0
            said += ", 1 added"
        return said

    def documents(self) -> list[dict[str, str]]:
        return [edited(document(number, self.names[number]), edition) for number, edition in self.editions.items()]


def edited(original: dict[str, str], edition: int) -> dict[str, str]:
    """The document with its first paragraphs written anew: as many as it was edited times."""
    old = original["text"].split("\n\n")
    number = int(hashlib.sha256(original["id"].encode()).hexdigest()[:6], 16)
    new = document(number, original["title"], edition)["text"].split("\n\n")
    return {**original, "text": "\n\n".join([*new[: min(edition, len(old))], *old[min(edition, len(old)) :]])}


def model(body: dict[str, Any]) -> str:
    """The scripted model; as the harsher judge it takes a seventh of the claims for unsupported."""
    said = scripted_model(body)
    if body["model"] != "harsh-judge" or '"verdicts"' not in said:
        return said
    found = json.loads(said)
    for verdict in found["verdicts"]:
        key = f"{body['messages'][-1]['content']}{verdict['number']}"
        if int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) < HARSHER * 2**32:
            verdict.update({name: False for name, value in verdict.items() if value is True})
    return json.dumps(found)


def shuffle_vectors(project: Project, back: bool) -> None:
    import chromadb
    import numpy as np
    from chromadb.config import Settings as ChromaSettings

    client = chromadb.PersistentClient(
        str(project.settings.embedded_chroma_path), ChromaSettings(anonymized_telemetry=False)
    )
    [collection] = client.list_collections()
    every = sorted(collection.get(include=[])["ids"])
    ids = random.Random(SEED).sample(every, int(SHUFFLED * len(every)))
    found = collection.get(ids=ids, include=["embeddings"])
    vectors = dict(zip(found["ids"], np.asarray(found["embeddings"]), strict=True))
    step = -1 if back else 1
    collection.update(ids=ids, embeddings=[vectors[ids[(place + step) % len(ids)]] for place in range(len(ids))])


def evaluate(project: Project, day: int, environment: dict[str, str]) -> Judged:
    os.environ.update(environment)
    project.environment.update(environment)
    launched = project.evaluate(CLIENT, f"schedule:day-{day:02}")
    if launched.failure is not None:
        sys.exit(f"day {day}: {launched.failure}")
    db = project.database()
    judged = judged_before(db, evaluations_of_trigger(db, CLIENT, f"schedule:day-{day:02}")[-1])
    db.dispose()
    return judged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--items", type=int, default=300)
    arguments = parser.parse_args()
    with ScriptedServer(model) as server, tempfile.TemporaryDirectory() as folder:
        environment = {
            "RAGEVAL_HOME": f"{folder}/home",
            "RAGEVAL_GENERATOR_MODEL": "scripted",
            "RAGEVAL_ANSWER_MODEL": "scripted",
            "RAGEVAL_JUDGE_MODEL": "scripted-judge",
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "none",
            "EVALUATION_DEFAULT_SAMPLE_SIZE": str(arguments.items),
            "EVALUATION_TARGET_ITEMS": str(arguments.items),
            "EVALUATION_DATASET_MAX_AGE_DAYS": "7",
        }
        os.chdir(folder)
        os.environ.update(environment)
        project = Project(Path(folder), dict(environment))
        prepare_dagster_home(project.settings)
        return live(project, arguments.documents)


def live(project: Project, count: int) -> int:
    names = places(count + DAYS)
    corpus = Corpus(names, dict.fromkeys(range(count), 0), random.Random(SEED))
    project.ingest(CLIENT, corpus.documents(), chunk_size=500)
    wrong: list[str] = []
    unclear: list[int] = []
    for day in range(1, DAYS + 1):
        started = time.perf_counter()
        happened = "first" if day == 1 else corpus.live_a_day(day) if day not in (BROKEN, MENDED) else "none"
        if day not in (1, BROKEN, MENDED):
            project.ingest(CLIENT, corpus.documents(), chunk_size=500)
        if day in (BROKEN, MENDED):
            shuffle_vectors(project, back=day == MENDED)
            happened = "a tenth re-embedded wrongly" if day == BROKEN else "re-embedded rightly"
        choices = {"EVALUATION_DATASET_MAX_AGE_DAYS": "0" if day in RENEWALS else "7"}
        if day == OTHER_JUDGE:
            choices["RAGEVAL_JUDGE_MODEL"] = "harsh-judge"
            happened += ", another judge"
        judged = evaluate(project, day, choices)
        verdict = judged.judgement.verdict
        cause = judged.judgement.changes[0].what if judged.judgement.changes else "nothing"
        caught = verdict == "regressed" and cause == "index"
        if (day == BROKEN and not caught) or (day != BROKEN and verdict == "regressed") or verdict is None:
            wrong.append(f"day {day}: {verdict}, laid to {cause}")
        unclear += [day] if verdict == "unclear" else []
        renewed = ", questions renewed" if day in RENEWALS else ""
        print(f"day {day:2} {happened}{renewed}: {verdict}  [{time.perf_counter() - started:.1f} s]", flush=True)
        for row in judged.gated:
            print(f"       {movement(row)}")
        print(f"       {', '.join(what_changed(judged.judgement.changes, worse=True))}")
    print(f"\nMissed, or falsely alarmed: {'; '.join(wrong) or 'nothing'}")
    print(f"Days that are unclear, which alarm nobody: {', '.join(map(str, unclear)) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
