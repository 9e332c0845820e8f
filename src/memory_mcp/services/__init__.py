"""Services: each knows a technique and no family."""
