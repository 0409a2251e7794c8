"""Hypothesis strategies for whatever items a file can hold."""

from hypothesis import strategies as st

from rageval_dagster.records import Evidence, Item

# What a file can hold: any text but the halves of surrogate pairs, and NUL, which no database takes.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20).filter(
    str.strip
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
numerals = st.integers(-999, 9999) | st.from_regex(r"\$?[1-9][0-9]{0,3}(\.[0-9]{2})?%?", fullmatch=True)


def declared(kinds: list[str], expected: st.SearchStrategy) -> st.SearchStrategy:
    return st.fixed_dictionaries(
        {"name": texts, "kind": st.sampled_from(kinds), "expect": expected},
        optional={
            "any_of": st.lists(expected),
            "forbid": st.lists(texts),
            "intermediates": st.dictionaries(texts, texts),
        },
    )


checks = st.lists(
    declared(["list", "fact"], texts) | declared(["number", "calculation"], numerals),
    max_size=2,
    unique_by=lambda check: str(check["name"]),
)
items = st.builds(
    Item,
    question=texts,
    answers=st.lists(texts, max_size=3).map(tuple),
    evidence=st.lists(st.builds(Evidence, texts, st.none() | st.integers(1, 999), st.none() | texts), max_size=3).map(
        tuple
    ),
    category=texts,
    answerable=st.booleans(),
    origin=texts,
    human_verified=st.booleans(),
    history=st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), max_size=2).map(tuple),
    principal=st.none() | st.dictionaries(texts, json_values, min_size=1, max_size=2),
    checks=checks.map(tuple),
)
item_lists = st.lists(items, min_size=1, max_size=4, unique_by=lambda item: item.item_id)
