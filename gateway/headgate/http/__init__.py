"""HTTP: authentication, request bodies, routes and responses."""
