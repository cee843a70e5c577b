"""Real local Kafka brokers and Redis as child processes, for `headgate dev` and the tests."""
