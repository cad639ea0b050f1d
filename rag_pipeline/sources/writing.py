"""Putting single items into a source, and removing them: what a refresh would pick up, and nothing else."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import Contract
from rag_pipeline.errors import ConfigError, SourceError
from rag_pipeline.files import write_atomically
from rag_pipeline.sources.globs import glob_matcher
from rag_pipeline.sources.listing import include_patterns
from rag_pipeline.sources.store import open_store
from rag_pipeline.storage import is_address


class WrittenItem(Contract):
    """What was put or removed. ``address`` is an absolute path, or the address in a bucket."""

    path: str
    address: str
    size: int


def put_item(corpus: CorpusConfig, path: str, data: bytes) -> WrittenItem:
    """Write an item of a corpus's source, in place of the one that is there, if any. The bytes are kept as they are.

    It appears whole or not at all. The next refresh reads it.

    Args:
        path: the item's path in the source, with ``/`` between folders, as hits show it.

    Raises:
        ConfigError: documents of this source are rows; or the path leads out of the source, or is none that a refresh
            would pick up. The message names what keeps it out.
        SourceError: it cannot be written.
        StoreUnreachableError: the bucket cannot be reached.
    """
    check_path(corpus, path)
    address = item_address(corpus, path)
    if isinstance(address, Path):
        _write_file(corpus, address, path, data)
    else:
        from rag_pipeline.sources.buckets import put_object

        put_object(corpus, path, data)
    return WrittenItem(path=path, address=str(address), size=len(data))


def remove_item(corpus: CorpusConfig, path: str) -> WrittenItem:
    """Delete an item of a corpus's source. The next refresh removes its document.

    Raises:
        ConfigError: as with :func:`put_item`.
        SourceError: there is no such item, or it cannot be deleted.
        StoreUnreachableError: the bucket cannot be reached.
    """
    check_path(corpus, path)
    address = item_address(corpus, path)
    if isinstance(address, Path):
        size = _remove_file(corpus, address, path)
    else:
        from rag_pipeline.sources.buckets import remove_object

        size = remove_object(corpus, path)
    return WrittenItem(path=path, address=str(address), size=size)


def check_path(corpus: CorpusConfig, path: str) -> None:
    """
    Raises:
        ConfigError: this is no path of an item that a refresh of the corpus would pick up.
    """
    source = corpus.source
    if source.format != "files":
        raise ConfigError(
            f"{corpus.file}: source.format: a {source.format} file holds many documents; single ones can be put and removed "
            f"with format: files only. Write the whole file yourself"
        )
    parts = path.split("/")
    fault = _fault(corpus, path)
    if fault is not None:
        raise ConfigError(f"{path!r}: {fault}")
    if open_store_is_one_item(corpus):
        name = source.path.rstrip("/").rpartition("/")[2] if is_address(source.path) else corpus.source_path.name
        if path != name:
            raise ConfigError(f"{path!r}: the source is one file, {name!r}; expected that name")
        return
    if not source.hidden and any(part.startswith(".") for part in parts):
        raise ConfigError(f"{path!r}: names that begin with a dot are left out; set source.hidden in {corpus.file}")
    if not glob_matcher(include_patterns(source))(path):
        patterns = ", ".join(source.include)
        raise ConfigError(
            f"{path!r}: source.include of {corpus.file} does not pick it up: expected a match of {patterns}; add a pattern "
            f"there"
        )
    if glob_matcher(source.exclude)(path):
        raise ConfigError(f"{path!r}: source.exclude of {corpus.file} leaves it out")


def _fault(corpus: CorpusConfig, path: str) -> str | None:
    """What is wrong with a path whatever the source holds, and what to write instead; None where nothing is."""
    expected = "expected a path within the source, such as 'guide/setup.md'"
    if not path:
        return f"the path is empty; {expected}"
    if "\\" in path:
        return f"holds a backslash; {expected}, with / between folders"
    if any(ord(character) < 32 or character == "\x7f" for character in path):
        return f"holds a control character; {expected}"
    if _is_surrogate(path):
        return f"holds what is not UTF-8; {expected}"
    if os.path.isabs(path):
        inside = not is_address(corpus.source.path) and Path(path).is_relative_to(corpus.source_path)
        instead = f": {Path(path).relative_to(corpus.source_path).as_posix()!r}" if inside else ", such as 'guide/setup.md'"
        return f"begins with /; expected a path within the source{instead}"
    plain = posixpath.normpath(path)
    if plain.split("/")[0] == ".." or plain == ".":
        return f"leads out of the source; {expected}" if ".." in path else f"names no item; {expected}"
    if path.endswith("/"):
        return f"ends with / as a folder does; {expected}"
    if plain != path:
        return f"expected a path within the source without '.', '..' and empty parts: {plain!r}"
    return None


def open_store_is_one_item(corpus: CorpusConfig) -> bool:
    """Whether the source is one file or object. A folder that is not there yet is none."""
    if not is_address(corpus.source.path) and not corpus.source_path.exists():
        raise SourceError(f"{corpus.file}: source.path: {corpus.source_path} does not exist; make the folder first")
    return open_store(corpus).one_item


def item_address(corpus: CorpusConfig, path: str) -> Path | str:
    """Where an item lies.

    Raises:
        ConfigError: a link on the way leads out of the source.
    """
    if is_address(corpus.source.path):
        root = corpus.source.path.rstrip("/")
        return root if open_store(corpus).one_item else f"{root}/{path}"
    root_folder = corpus.source_path
    if root_folder.is_file():
        return root_folder
    file = (root_folder / path).resolve()
    if not file.is_relative_to(root_folder):
        raise ConfigError(f"{path!r}: a link on the way leads out of the source's folder")
    return file


def _is_surrogate(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return True
    return False


def _write_file(corpus: CorpusConfig, file: Path, path: str, data: bytes) -> None:
    try:
        if file.is_dir():
            raise SourceError(f"{corpus.file}: source.path: {path!r} is a folder")
        above = next((folder for folder in file.parents if folder.is_file()), None)
        if above is not None:
            name = above.relative_to(corpus.source_path).as_posix()
            raise SourceError(
                f"{path!r}: {name!r} is a file, nothing can lie under it; remove it first, or choose another path"
            )
        write_atomically(file, data, "source_item")
    except OSError as error:
        raise SourceError(f"{file}: cannot be written: {error.strerror or error}") from None


def _remove_file(corpus: CorpusConfig, file: Path, path: str) -> int:
    try:
        # The link itself, where there is one: what it leads to may be an item of its own.
        link = corpus.source_path / path if corpus.source_path.is_dir() else file
        size = link.stat().st_size
        link.unlink()
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError(f"{corpus.source_address}: there is no item {path!r}") from None
    except OSError as error:
        raise SourceError(f"{file}: cannot be deleted: {error.strerror or error}") from None
    return size
