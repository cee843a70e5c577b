"""The operator's pages: server-rendered, with small scripts that make them live.

A page is a function from the parent's figures to a `Page`: the same views that the JSON endpoints
show. `app` responds to requests with them, `rendering` turns them into HTML.
"""
