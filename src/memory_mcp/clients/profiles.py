"""Profiles: which families a client gets. Every client puts the whole list of tools into each conversation, so one
that needs only notes is better off without the rest."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    name: str
    purpose: str
    families: tuple[str, ...] = ()  # none: all of them

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of `memory-mcp` that choose it."""
        return ("--families", ",".join(self.families)) if self.families else ()


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("everything", "all families"),
        Profile("notes", "linked notes, found by words and by meaning", ("notes", "recall")),
        Profile("files", "markdown files that people edit, too", ("stores", "recall")),
        Profile("graph", "entities, observations and relations", ("graph", "recall")),
        Profile("tables", "tables and SQL", ("portals", "recall")),
    )
}
