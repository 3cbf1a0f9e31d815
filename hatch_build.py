"""The README as a package index shows it: there, a link into the repository needs the repository's address."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A link or a picture whose target is a file of the repository.
RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")


def absolute(text: str, address: str, version: str) -> str:
    """The text with its relative links, and the files of its pictures, at the tag of this version."""

    def led(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "blob"
        return f"{found[1]}{found[2]}({address.rstrip('/')}/{kind}/v{version}/{found[3]})"

    return RELATIVE.sub(led, text)


class Readme(MetadataHookInterface):
    """Sets `readme`; until `[project.urls]` has a Source, the README as it stands."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for the sdist and the wheel."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        if address := metadata.get("urls", {}).get("Source"):
            text = absolute(text, address, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
