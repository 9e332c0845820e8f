"""Sixty tasks in plain words, and the calls that an agent solves them with."""
