"""Suppression of republished content: reserve before, settle after.

docs/design/suppression-protocol.md has the protocol.
"""
