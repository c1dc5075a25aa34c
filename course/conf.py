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
html_show_copyright = False
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
add_module_names = False
suppress_warnings = ["mystnb.unknown_mime_type"]


RAISES = re.compile(r"(?:(?<=[.;]\s)|^)((?:Raises )?[A-Z]\w*Error\b.*)$", re.S)  # the end of a paragraph
CODE = re.compile(
    r"(`[^`]+`"
    r"|\b[A-Za-z]\w*\((?:[^()]*=[^()]*)?\)"  # calls with named arguments, or none
    r"|\b\w+=(?:\"[^\"]*\"|[\w.]*\w)"
    r"|(?<![\w.])[A-Za-z]\w+(?:\.[A-Za-z]\w+)+|(?<![\w.])[A-Za-z]+_\w+(?:\.\w+)*)"
)


def plain(app, what, name, obj, options, lines):
    """Docstrings are plain text, with code between backticks: say so in reStructuredText.

    What they do comes first and what they raise last. What looks like code is set as code, and a paragraph
    with indented lines keeps its lines.
    """
    paragraphs, errors = [], []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        said = RAISES.search(paragraph)
        if said and not re.search(r"^ ", paragraph, flags=re.M):
            errors.append(said[1].removeprefix("Raises "))
            paragraph = paragraph[: said.start()].rstrip(" ;:")
        if paragraph.strip():
            paragraphs.append(marked(paragraph))
    lines[:] = []
    for paragraph in paragraphs:
        part = paragraph.split("\n")
        indented = any(line.startswith(" ") for line in part)
        lines += [f"| {line}" if indented else line for line in part] + [""]
    for error in errors:
        lines += [*f"**Raises** {marked(error)}".split("\n"), ""]


def marked(text):
    """Text with its code marked, whatever stands beside it, and all other signs as they are, quotes too."""
    return "".join(
        rf"\ ``{part.strip('`')}``\ " if at % 2 else re.sub(r"([*|_\\\"'])", r"\\\1", part)
        for at, part in enumerate(CODE.split(text))
    )


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", plain)
