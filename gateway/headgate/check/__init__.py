"""`headgate check`: problems of an installation, found before they cause trouble.

`rules` are pure functions, `local` adds the paths on this machine, `connect` reads Kafka and Redis.
"""
