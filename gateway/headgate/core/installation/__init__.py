"""What happens to an installation: what the installation log says, and when it says it."""
