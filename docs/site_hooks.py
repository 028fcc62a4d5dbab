"""MkDocs hooks: the Markdown files of the repository root become pages, and links between them and docs/ work in both.

Links are written for the repository, as GitHub and editors resolve them. Here a link to a root file becomes a link to
its page, the prefix ``docs/`` of links in a root file is removed, and a link to source becomes its path as text.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
_SOURCE = re.compile(r"\[[^\]]*\]\((?P<path>(?:attacks|fixtures|pfl_audit|reports|tests)/[^)\s]+)\)")
_TARGET = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root files to the pages of the site."""
    root = Path(config.config_file_path).parent
    for name, page in ROOT_PAGES.items():
        text = _SOURCE.sub(r"`\g<path>`", (root / name).read_text())
        text = _TARGET.sub(lambda match: _from_root(match["path"]), text)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links of a docs page to a root file at the page of that file."""
    if page.file.src_uri in ROOT_PAGES.values():
        return markdown
    up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)
    return _TARGET.sub(lambda match: _from_docs(match["path"], up), markdown)


def _from_root(path: str) -> str:
    return ROOT_PAGES.get(path, path.removeprefix("docs/"))


def _from_docs(path: str, up: str) -> str:
    name = path.removeprefix(f"{up}../")
    return f"{up}{ROOT_PAGES[name]}" if name != path and name in ROOT_PAGES else path
