"""What a content type says about the bytes."""

_FORM = "application/x-www-form-urlencoded"


def is_json(content_type: str) -> bool:
    """Whether the bytes are JSON text (RFC 6839 for `+json`)."""
    media_type = _media_type(content_type)
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")


def is_form(content_type: str) -> bool:
    """Whether the bytes are the fields of a form, as browsers send them."""
    return _media_type(content_type) == _FORM


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
