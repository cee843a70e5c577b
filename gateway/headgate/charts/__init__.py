"""Charts for the console and for the jobs' pages, in one style."""
