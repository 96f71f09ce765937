"""The entry point: dispatch, exit codes, errors as one line on stderr."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module

from actions.base.errors import ConfigError, ConsoleError, InputError, ParameterError, UnknownNameError, UsageError
from actions.base.files import expanded
from actions.base.readonly import promise_readonly
from tui.cli.arguments import parse_arguments
from tui.cli.streams import abandon, prepare_streams, require_files
from tui.shutdown import leave

FAILED = 1
BROKEN_PIPE = 141
"""128 and the number of SIGPIPE, as of other programs whose reader has enough."""
BAD_USAGE = 2

_COMMANDS = {
    None: "tui.cli.console:run",
    "nodes": "tui.cli.inspect.cluster:print_nodes",
    "pods": "tui.cli.tables.cluster:print_pods",
    "events": "tui.cli.tables.cluster:print_events",
    "queues": "tui.cli.tables.queues:print_queues",
    "cost": "tui.cli.tables.cluster:print_cost",
    "launch": "tui.cli.launch:run",
    "alarms": "tui.cli.alarms:run",
    "config": "tui.cli.tables.settings:run",
    "completion": "tui.cli.manual.completion:run",
    "man": "tui.cli.manual.page:run",
    "help": "tui.cli.manual.page:print_help",
    "version": "tui.cli.manual.page:print_version",
    "print": "tui.cli.manual.printed:print_text",
    "docs": "tui.cli.manual.printed:print_page",
    "why": "tui.cli.inspect.cluster:print_findings",
    "audit": "tui.cli.inspect.audit:print_audit",
    "mirror": "tui.cli.mirror:run",
    "read": "tui.cli.inspect.read:run",
    "watch": "tui.cli.inspect.watch:run",
    "guard": "tui.cli.inspect.guard:run",
    "forward": "tui.cli.inspect.forward:run",
    "blueprints": "tui.cli.catalogue:run",
    "validate": "tui.cli.catalogue:run",
    "plan": "tui.cli.plan:run",
    "prices": "tui.cli.prices:run",
    "doctor": "tui.cli.doctor:run",
    "logs": "tui.cli.inspect.logs:run",
    "runs": "tui.cli.runs:run",
    "serve": "tui.cli.sharing.serve:run",
    "support": "tui.cli.sharing.support:run",
    "sandbox": "tui.cli.sandbox:run",
}
"""Function of each command, `(options) -> exit code`; its module is imported when it is called."""
_WITHOUT_SETTINGS = ("completion", "man", "help", "version", "print", "docs")
"""Commands that a mistake in the settings file does not stop."""


def program() -> int:
    """Run the program as a process of its own, which ends soon after `main` returns, even if threads still work.

    A shell that completes a line starts it, too.
    """
    if "_ARGCOMPLETE" in os.environ:
        from tui.cli.manual.completion import complete_line

        complete_line(_settle)
    return leave(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Returns:
        0 done or passed; 1 failed; 2 bad usage or an invalid file; 3 a teardown left something;
        130 interrupted; 141 the reader of the output has gone.
    """
    os.umask(0o077)
    prepare_streams()
    options = parse_arguments(argv)
    try:
        _settle(options)
        require_files()
        code = function_of(options.command)(options)
        sys.stdout.flush()
    except ConsoleError as error:
        return _print_error(error, debug=options.debug)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        abandon(sys.stdout)  # no message: the reader of the pipe has closed it
        return BROKEN_PIPE
    except OSError as error:
        return _print_error(_from_oserror(error), debug=options.debug)
    return code


def _settle(options: Namespace) -> None:
    """Complete the options by the settings file, and carry out those that hold for the whole process."""
    if options.command not in _WITHOUT_SETTINGS:
        from tui.settings.config import VARIABLES, ConfigFile, config_path, settle

        config = ConfigFile()
        if config_path().exists() or any(name.startswith(VARIABLES) for name in os.environ):
            from tui.settings.configfile import load_config, with_environment  # it reads YAML, which few need

            config = with_environment(load_config(), os.environ)
        options.settled = settle(options, config, os.environ)
        if getattr(options, "terraform_program", None):
            from actions.terraform.program import PROGRAM_VARIABLE

            os.environ[PROGRAM_VARIABLE] = options.terraform_program
    if getattr(options, "all_namespaces", False):
        options.namespace = ""
    if options.store:
        from actions.run.context.store_address import parse_store

        options.store = str(parse_store(options.store))
    if options.readonly:
        promise_readonly()
    if options.prices:
        from actions.fleet.prices import choose_price_file

        choose_price_file(expanded(options.prices))


def function_of(command: str | None) -> Callable[[Namespace], int]:
    """Import the function that runs a command; `None` is the console itself."""
    module, name = _COMMANDS[command].split(":")
    function: Callable[[Namespace], int] = getattr(import_module(module), name)
    return function


def _from_oserror(error: OSError) -> ConfigError:
    """Make a sentence of an error on a file, or on the output, that no other code has turned into one."""
    if error.filename is None:
        abandon(sys.stdout)
    converted = ConfigError(
        f"{error.filename or 'The output'} cannot be used: {error.strerror or error}.",
        hint="Free some space, or check its permissions.",
    )
    converted.__cause__ = error
    return converted


def _print_error(error: ConsoleError, *, debug: bool) -> int:
    from actions.base.untrusted import plain_text, redact

    if debug:
        import traceback

        sys.stderr.write(plain_text(redact("".join(traceback.format_exception(error)))))
    for sentence in error.sentences():
        sys.stderr.write(f"eksml-tui: {plain_text(redact(sentence))}\n")
    from actions.cluster.auth.exec_plugins import PluginRefusedError

    bad_usage = InputError | UsageError | ParameterError | UnknownNameError | PluginRefusedError
    return BAD_USAGE if isinstance(error, bad_usage) else FAILED
