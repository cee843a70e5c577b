"""What a spooled event is: how it lies on disk."""
