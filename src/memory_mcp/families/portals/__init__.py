"""Portals: tables and SQL, each portal in one folder and, exported, in one portable file.

Nothing is imported here: worker processes import single modules of this package, and wait for every import.
"""
