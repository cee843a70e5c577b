"""`headgate top`: producers, topics and groups of a gateway, live in a terminal."""
