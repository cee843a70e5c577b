"""The description of the HTTP interface (OpenAPI 3.1), and the page that shows it to people."""
