"""What every job that copies records has: its plan, its chunks, its speed."""
