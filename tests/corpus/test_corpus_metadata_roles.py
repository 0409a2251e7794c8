"""What metadata fields say is judged by their names and by how their values behave."""

from collections.abc import Iterable, Mapping
from typing import Any

from rageval_dagster.corpus.metadata_roles import MetadataColumns


def columns(metadatas: Iterable[Mapping[str, Any] | None]) -> MetadataColumns:
    found = MetadataColumns()
    for metadata in metadatas:
        found.add(metadata)
    return found


def name_of(use: Any) -> str | None:
    return use.name if use else None


def test_the_surest_name_wins_where_several_fields_name_documents() -> None:
    found = columns(
        {"title": f"Title {n // 4}", "docId": f"d{n // 4}", "chunk_id": f"c{n}", "lang": "en"} for n in range(40)
    )
    document = found.document_field()
    assert document is not None
    assert (document.name, document.share, document.values) == ("docId", 1.0, 10)


def test_a_field_with_a_value_of_its_own_for_each_chunk_gives_way() -> None:
    found = columns({"doc_id": f"node-{n}", "metadata.file_name": f"f{n // 5}.pdf"} for n in range(50))
    assert name_of(found.document_field()) == "metadata.file_name"
    assert name_of(columns({"doc_id": f"faq-{n}"} for n in range(50)).document_field()) == "doc_id"


def test_a_field_of_no_telling_name_is_known_by_its_behaviour() -> None:
    by_behaviour = columns({"akte": f"A-{n // 6}", "farbe": ["rot", "blau"][n % 2]} for n in range(60))
    assert name_of(by_behaviour.document_field()) == "akte"
    # The same values, but a document's chunks do not stand together.
    assert columns({"akte": f"A-{n % 10}"} for n in range(60)).document_field() is None
    # One value for thousands of chunks.
    assert columns({"source": "sharepoint"} for _ in range(1500)).document_field() is None


def test_pages_may_have_labels() -> None:
    found = columns({"page_label": str(n % 7) if n % 10 else "iv", "page_count": 7} for n in range(100))
    page = found.page_field()
    assert page is not None
    assert (page.name, page.share) == ("page_label", 0.9)


def test_chunks_that_name_no_document_are_counted() -> None:
    found = columns([{"file": "a"}, {"file": "a"}, {"file": "b"}, {"source": "c"}, {"x": 1}, None])
    assert found.documents("file") == (5, 2 / 6)


def test_mixed_types_of_a_field_are_named() -> None:
    found = columns({"document_id": n // 4 if n % 2 else str(n // 4), "page": n % 3} for n in range(40))
    document = found.document_field()
    assert document is not None
    assert document.types == {"text": 0.5, "number": 0.5}
    assert document.values == 10  # 3 and "3" are one document


def test_times_are_those_that_can_be_read_and_are_likely() -> None:
    found = columns(
        {
            "views": 12 + n,
            "created": "2024-05-01T12:00:00Z" if n % 2 else 1714564800 + n,
            "expires": "next spring",
            "milliseconds_timestamp": 1714564800000 + n,
        }
        for n in range(20)
    )
    time = found.time_field()
    assert time is not None
    assert (time.name, time.share) == ("created", 1.0)
    assert columns({"views": n} for n in range(20)).time_field() is None
    assert name_of(columns({"stand": f"2024-05-{n + 1:02}"} for n in range(20)).time_field()) == "stand"


def test_a_client_field_has_few_values_and_one_for_each_document() -> None:
    rows = [
        {"url": f"u{n // 4}", "customerId": f"k{n // 40}", "account_manager": f"m{n % 3}", "org": "us"}
        for n in range(200)
    ]
    found = columns(rows)
    [client] = found.client_fields(found.document_field())
    assert (client.name, client.values, client.share) == ("customerId", 5, 1.0)


def test_a_client_field_is_one_that_nearly_all_chunks_have() -> None:
    half = columns({"tenant": f"t{n // 50}"} if n % 2 else {} for n in range(200))
    assert half.client_fields(None) == []
    of_each = columns({"tenant": f"t{n}"} for n in range(200))
    assert of_each.client_fields(None) == []
