"""What Sphinx builds the site with.  `scripts.maintain.site` lays this folder and the pages out, and calls it."""

import ortho_ref

project = "ortho_ref"
version = release = ortho_ref.__version__
author = "The ortho_ref authors"
project_copyright = "the ortho_ref authors, MIT licence"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "scripts.maintain.book.extension"]
templates_path = ["templates"]
exclude_patterns = ["templates/**"]

# Pages in Markdown, as they are read in the repository.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# Docstrings in numpydoc's form; the words of a type are no references.  numpydoc itself compiles a template for each.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True
# Types in signatures, of this project and of others, have no page of their own.
nitpick_ignore_regex = [("py:.*", ".*")]

# Nothing is fetched when a page is looked at: not from elsewhere, nor, for `file://`, from here.
html_math_renderer = "mathml"
html_show_search_summary = False
html_copy_source = False
html_show_sourcelink = False
html_theme = "furo"
html_title = "ortho_ref"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = ["equations.js", "find.js", "book.js"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/goto.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
