"""A program's commands as argparse has them, and what is made from them: completion and man."""
