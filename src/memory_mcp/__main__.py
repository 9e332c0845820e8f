"""`memory-mcp` and `python -m memory_mcp`.

Serving over stdio is on the fast path: a client waits for it at every start. Other verbs load the command line.
"""

import os
import sys

HELP_FLAGS = ("--help", "-h")
EXPLAIN_FLAG = "--explain"  # of hook
CLI_FLAGS = [*([flag] for flag in HELP_FLAGS), ["--version"], ["--install-completion"], ["--show-completion"]]
FLAG_WITHOUT_VALUE = "--json"
INTERRUPTED = 130  # exit code, as shells have it for Ctrl-C
COMPLETION_VARIABLE = "_MEMORY_MCP_COMPLETE"  # set by a shell that wants completions


def main(argv: list[str] | None = None) -> None:
    try:
        _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before the verb has its own way to end
        sys.stderr.write("memory-mcp: Interrupted.\n")
        sys.exit(INTERRUPTED)


def _run(arguments: list[str]) -> None:
    arguments = _with_verb_first(arguments)
    if arguments[:1] == ["hook"] and not _is_for_person(arguments):
        run_hook(arguments[1:])
    serving = _arguments_of_serve(arguments)
    if serving is not None and COMPLETION_VARIABLE not in os.environ:
        if not any(flag in serving for flag in HELP_FLAGS):
            sys.exit(_serve(serving, is_bare=not arguments))
        arguments = ["serve", "--help"]
    from memory_mcp.cli import command_line

    command_line(arguments)


def _is_for_person(hook: list[str]) -> bool:
    """Whether a person typed `memory-mcp hook`. Clients have pipes."""
    streams = (sys.stdin, sys.stdout)
    is_at_terminal = all(stream is not None and stream.isatty() for stream in streams)
    return is_at_terminal or any(flag in hook for flag in (*HELP_FLAGS, EXPLAIN_FLAG))


def run_hook(arguments: list[str]) -> None:
    """Answer an event of a client, and end the process with 0 whatever happens."""
    from memory_mcp.hooks import client

    try:
        client.run(arguments, _answer_in_process)
    finally:
        os._exit(0)


def _answer_in_process(data_dir: str, call: dict[str, object]) -> dict[str, object]:
    from memory_mcp import start

    return start.answer_hook(data_dir, call)


def _with_verb_first(arguments: list[str]) -> list[str]:
    """The arguments of `memory-mcp --data-dir FOLDER list` as of `memory-mcp list --data-dir FOLDER`."""
    for number, word in enumerate(arguments):
        before = arguments[number - 1] if number else FLAG_WITHOUT_VALUE
        is_value = before.startswith("-") and "=" not in before and before != FLAG_WITHOUT_VALUE
        if not word.startswith("-") and not is_value:
            return [word, *arguments[:number], *arguments[number + 1 :]]
    return arguments


def _arguments_of_serve(arguments: list[str]) -> list[str] | None:
    """None for another verb. Without a verb the arguments are those of serve."""
    if arguments[:1] == ["serve"]:
        return arguments[1:]
    has_verb = bool(arguments) and not arguments[0].startswith("-")
    return None if has_verb or arguments[:1] in CLI_FLAGS else arguments


def _serve(arguments: list[str], *, is_bare: bool) -> int:
    """Serve through the shared server or, where there can be none, in this process."""
    not_shared = None
    if not (sys.stdin is None or sys.stdout is None or sys.stdin.isatty()):
        from memory_mcp.relay.main import run
        from memory_mcp.relay.options import NotShared

        try:
            return run(arguments, _check)
        except NotShared as exc:
            not_shared = str(exc)
    from memory_mcp import start

    return start.serve(arguments, is_bare=is_bare, not_shared=not_shared)


def _check(arguments: list[str]) -> int:
    from memory_mcp import start

    return start.check(arguments)


if __name__ == "__main__":
    main()
