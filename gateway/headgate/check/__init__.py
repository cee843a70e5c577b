"""`headgate check`: what will bite, found before it does.

The judges (settings, topics, redis) are pure functions over what was read; `connect` reads.
"""
