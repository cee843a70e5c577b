"""The operator's pages: server-rendered, with small scripts that make them live.

A page is a function from what the parent has in memory to a `Page`: the same views that the JSON
endpoints show. `console` answers requests with them, `rendering` turns them into HTML.
"""
