"""A sample application: a shop that sends through Headgate and reads with its library.

docs/examples/shop.md walks through it. `web` sends, `consumer` keeps the view, `rebuild` makes the
view anew from the second tier; `python -m examples.shop` starts all that they need.
"""
