"""What `scripts.maintain.site` makes of the sources: pages of two columns, formula and code, and a page for each paper.

What is read: `material` (everything, once), by `tests` (who holds an equation), `kit` (the kit's cases) and
`scripts.maintain.equations`.  What is made: `mathml` of TeX, `prose` of Markdown, `listing` of code, `columns` and
`cards` of both, `code_pages` of all of them, `finder` for the box "go to equation", `api_reference` for the docstrings.
`places` says where each thing stands, `order` in which order; `stage` lays out what Sphinx builds the site from;
`extension` is what Sphinx is told.
"""
