"""Who asks the management pages, where a worker has handed the request on."""

REMOTE_HEADER = "X-Headgate-Remote"  # the client behind a worker's request; from the socket only
