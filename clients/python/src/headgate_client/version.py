"""The version of this library, which its User-Agent names."""

__version__ = "0.1.0"  # `make version` writes it
