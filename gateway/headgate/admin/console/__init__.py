"""The operator's pages: server-rendered, with small scripts that make them live.

A page is a function from the parent's figures to a `Page`, with the same views as the JSON
endpoints. `app` responds to requests with pages; `rendering` turns them into HTML.
"""
