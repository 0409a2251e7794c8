"""Folders behind a URL, of any file system that fsspec has a package for."""

from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from rageval_dagster.errors import SettingsError


def folder_of_url(variable: str, url: str) -> Path:
    """The folder that a variable names by URL: of `file://` the local one, else one with the methods of a `Path`.

    Nothing is connected to.

    Raises:
        SettingsError: it is no URL, there is no such file system, its package is not installed, or the URL holds what
            may be a secret.
    """
    import fsspec
    from upath import UPath

    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or not parts.scheme:
        raise SettingsError(f"{variable} is no URL such as s3://bucket/reports")
    # Either would stand in messages and in Dagster's metadata. A user alone does no harm: of Azure it is a container.
    if parts.password is not None or ":" in unquote(parts.username or "") or parts.query:
        raise SettingsError(
            f"{variable} holds a password or a query: leave it out, and give it to fsspec in its configuration"
        )
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    named = f"{variable}={parts.scheme}://..."
    try:
        fsspec.get_filesystem_class(parts.scheme)
    except ImportError as error:
        # Its words name the package: "Install s3fs to access S3".
        raise SettingsError(f"{named} needs a package: {error}") from None
    except ValueError:
        raise SettingsError(f"{named}: fsspec knows no {parts.scheme}://; take a folder, or s3://...") from None
    return cast(Path, UPath(url))
