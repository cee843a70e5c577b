"""What decides, without sockets, clocks or threads: both clients run the same code."""
