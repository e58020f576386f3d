"""What a task puts on an encoder. A file has a head, or several alike."""
