"""The parent of `headgate serve`, its workers, and the other processes' shells."""
