"""Charts for the console and for pages of the jobs: drawn once, in one style."""
