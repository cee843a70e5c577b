"""`headgate top`: live tables of a gateway's producers, topics and groups in a terminal."""
