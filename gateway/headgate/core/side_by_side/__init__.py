"""Two topics that ought to say the same: what each says of a key, and how the two differ."""
