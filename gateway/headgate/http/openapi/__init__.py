"""The description of the HTTP interface (OpenAPI 3.1), and its page for people."""
