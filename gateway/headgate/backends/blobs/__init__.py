"""The blob store and its parts."""
