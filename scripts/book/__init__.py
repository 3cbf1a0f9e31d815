"""What `python -m scripts.site` makes of the sources: pages of two columns, formula and code, and a page per paper.

What is read: `material` (everything, once), by `tests` (who holds an equation), `kit` (the kit's cases) and
`scripts.equations`.  What is made: `mathml` of TeX, `prose` of Markdown, `listing` of code, `columns` and `cards` of
both, `pages` of all of them, `finder` for the box "go to equation", `reference` for the docstrings.  `places` says
where each thing stands, `order` in which order; `stage` lays out what Sphinx builds the site from; `extension` is what
Sphinx is told.
"""
