"""Is a map Q -> U orthogonal, which one is it, and is its gradient right?  From outside: the map is only asked.

`check` asks everything and reports, `adapter` is how a map is asked; `observe` says what can be seen of any,
`recognise` compares it with the closed forms of `forms`, read off Q as in `closed`; `gradient` compares its pullback
with differences, `sweep` takes the defect over the size of Q, `rectangular` asks tall and wide ones.  `report` says
what is wrong, in text and JSON, `picture` draws it.  docs/maps.md is the page for those who ask.
"""
