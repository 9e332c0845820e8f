"""Files: taking turns, whole writes, and folders nothing can lead out of."""
