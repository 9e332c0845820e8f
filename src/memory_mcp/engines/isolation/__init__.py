"""Work on foreign files in a child process, with limits of time, memory and size."""
