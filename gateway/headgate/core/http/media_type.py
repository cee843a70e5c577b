"""What a content type says about the bytes."""


def is_json(content_type: str) -> bool:
    """Whether the bytes are JSON text (RFC 6839 for `+json`)."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")
