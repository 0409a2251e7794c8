"""A technical handbook in Markdown, 25 pages: headings, code spans, option lists, tables, and text that many repeat."""

from rageval_dagster.records import Chunk

COMMANDS = ("pack", "lift", "stow", "haul", "moor", "tow", "dock", "weigh", "crane", "berth", "ferry", "barge")
CONCEPTS = {
    "manifest": "A manifest is a JSON file that names every crate of a shipment.",
    "lockfile": "The lockfile records the exact weight of each crate in the `./holds/main/crate.json` file.",
    "registry": "A registry is a server that hands out crates by name and version.",
    "workspace": "A workspace is a folder that holds several shipments with one common lockfile.",
    "profile": "The `.cargorc` file is read by the harbour tool before any command starts.",
    "logging": "Log files are written to the `~/.cargo/_logs` folder, e.g. after a failed unloading.",
    "scripts": "The `prepare` script is run by the harbour tool after each download.",
    "tokens": "A revoked token is removed from the registry after ten minutes.",
    "scopes": "Scoped crates are published to the private registry of their owner.",
    "audit": "The audit report lists all crates with a known weakness.",
    "cache": "Downloaded crates are stored in the `~/.cargo/store` folder.",
    "mirrors": "A mirror copies every crate of the registry once a day.",
    "errors": "The exit code 17 is returned when a crate does not fit into its hold.",
}

OPTIONS = """#### `workspace`

* Default: null
* Type: String

Enable running a command in the shipments that the option names. Not supported by all harbour commands. \
The option is ignored by commands that work on the whole harbour.

#### `save`

Default: true
Type: Boolean

Save loaded crates to a `manifest.json` file as shipments. Crates that are left out by an earlier rule stay as they are.
"""
"""The same on the page of every command."""

FRAGMENTS = ("Save loaded crates", "Not supported by", "Enable running", "Default:", "Type:")
REPEATED = ("option is ignored by commands", "left out by an earlier rule")


def _command(name: str, number: int) -> str:
    return f"""---
title: cargo-{name}
section: 1
description: Handle the {name} step
---

# cargo-{name}

## Synopsis

```bash
cargo {name} [<crate>...]
```

## Description

The `cargo {name}` command reads the `./steps/{name}.yaml` file before it starts crane {number}. \
Run `cargo {name} --plan` to see what would happen.

- `--fast` skips the check of crate labels. The labels stay unread then.
- `--slow` checks each label twice. The result is kept in a report.

| Flag | Meaning |
|------|---------|
| `-f` | The short form. It does the same as the long form. It is old. |

{OPTIONS}"""


def pages() -> dict[str, str]:
    """Document ids with their texts."""
    commands = {f"commands/cargo-{name}.md": _command(name, number) for number, name in enumerate(COMMANDS, 1)}
    concepts = {
        f"concepts/{name}.md": f"# {name.capitalize()}\n\n{sentence} See [the guide](https://example.org/{name}).\n"
        for name, sentence in CONCEPTS.items()
    }
    return commands | concepts


def chunks() -> list[Chunk]:
    """Each page a chunk, the options of a command's page another."""
    found: list[Chunk] = []
    for document_id, text in pages().items():
        head, separator, options = text.partition("#### `workspace`")
        for part in (head, separator + options):
            if part:
                found.append(Chunk(f"{document_id} {len(found)}", part.strip(), document_id))
    return found
