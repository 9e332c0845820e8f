"""Speed as ratios within one run: absolute times are the machine's, ratios are ours."""
