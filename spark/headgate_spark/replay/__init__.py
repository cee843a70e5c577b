"""The runner of replays."""
