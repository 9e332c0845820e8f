"""Rules and measures of texts: names, times in words, characters, sizes. Pure functions."""
