"""Signed tokens (JWT, RFC 7519) of one issuer: its keys, and what its tokens say."""
