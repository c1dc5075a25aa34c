"""Pictures among the outputs of a notebook: as HTML with alt text for readers, as PNG where they are stored.

JupyterLab, nbconvert and the site show the alt text of an `<img>`, and none that stands in the metadata of a
PNG; GitHub shows a PNG, and may refuse one within HTML.
"""

import base64
import re
from html import escape, unescape

PICTURE = re.compile(r'<img alt="([^"]*)" src="data:image/png;base64,([A-Za-z0-9+/=\s]+)">')


def html(png: bytes | str, alt: str) -> str:
    """A PNG, as bytes or in base64, as an `<img>` with its alt text."""
    coded = base64.b64encode(png).decode() if isinstance(png, bytes) else png.strip()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{coded}">'


def to_html(output: dict) -> None:
    """Make an output that is a PNG, with alt text in its metadata, an `<img>`; any other stays."""
    data, metadata = output.get("data", {}), output.get("metadata", {})
    if "image/png" in data and "text/html" not in data:
        alt = metadata.pop("image/png", {}).get("alt", "") or metadata.pop("alt", "")
        data["text/html"] = html(_joined(data.pop("image/png")), alt)


def to_png(output: dict) -> None:
    """Make an output that is an `<img>` of `html` a PNG with alt text in its metadata; any other stays."""
    data = output.get("data", {})
    if found := PICTURE.fullmatch(_joined(data.get("text/html", ""))):
        del data["text/html"]
        data["image/png"] = found[2]
        output["metadata"]["image/png"] = {"alt": unescape(found[1])}


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
