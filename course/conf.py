"""The site's configuration, for Sphinx; `causalnb course build --to site` adds the notebooks and results."""

import re

project = "causalnb"
author = "the causalnb authors"
language = "en"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinxcontrib.bibtex",
    "sphinx-mathjax-offline",
]
html_theme = "furo"
html_title = "Causality in four language models"
html_static_path = ["_static"]
html_css_files = ["course.css"]
html_js_files = ["claims.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
exclude_patterns = ["README.md"]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4
myst_heading_slug_func = "causalnb.course.site.slug"
nb_execution_mode = "off"  # the stored outputs are the evidence
nb_merge_streams = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
suppress_warnings = ["mystnb.unknown_mime_type"]


def plain(app, what, name, obj, options, lines):
    """Docstrings are plain text, with code between backticks: say so in reStructuredText.

    A paragraph with indented lines keeps its lines.
    """
    parts = re.split(r"(`[^`]+`)", "\n".join(lines))
    escaped = "".join(
        f"`{part}`" if at % 2 else re.sub(r"([*|_\\])", r"\\\1", part) for at, part in enumerate(parts)
    )
    paragraphs = [paragraph.split("\n") for paragraph in re.split(r"\n\s*\n", escaped.strip("\n"))]
    lines[:] = []
    for paragraph in paragraphs:
        indented = any(line.startswith(" ") for line in paragraph)
        lines += [f"| {line}" if indented else line for line in paragraph] + [""]


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", plain)
