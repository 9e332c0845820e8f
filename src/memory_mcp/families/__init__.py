"""The five families that agents keep their memories in, and recall over all of them."""
