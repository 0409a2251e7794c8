"""Folders behind a URL, of any file system that fsspec has a package for."""

from pathlib import Path
from typing import cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from rageval_dagster.errors import SettingsError


def folder_of_url(variable: str, url: str) -> Path:
    """The folder that a variable names by URL: of `file://` the local one, else one with the methods of a `Path`.

    Nothing is connected to.

    Raises:
        SettingsError: no such file system, its package is not installed, or the URL holds a password.
    """
    import fsspec
    from upath import UPath

    parts = urlsplit(url)
    if parts.password is not None:
        # It would stand in messages and in Dagster's metadata.
        raise SettingsError(f"{variable} holds a password: leave it out, and give it to fsspec in its configuration")
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    try:
        fsspec.get_filesystem_class(parts.scheme)
    except ImportError as error:
        # Its words name the package: "Install s3fs to access S3".
        raise SettingsError(f"{variable}={url} needs a package: {error}") from None
    except ValueError:
        raise SettingsError(
            f"{variable}={url}: fsspec knows no {parts.scheme}://; take a folder, or s3://..."
        ) from None
    return cast(Path, UPath(url))
