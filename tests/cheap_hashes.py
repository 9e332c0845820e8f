"""Keys and passwords are hashed with the least work that bcrypt allows: tests make thousands of them."""

from memory_mcp.services.access import keys, sign_ins

ROUNDS_OF_KEYS, ROUNDS_OF_PASSWORDS = keys.BCRYPT_ROUNDS, sign_ins.BCRYPT_ROUNDS
MIN_ROUNDS = 4


def use_cheap_hashes() -> None:
    """For this process and those that are forked from it."""
    keys.BCRYPT_ROUNDS = sign_ins.BCRYPT_ROUNDS = MIN_ROUNDS
