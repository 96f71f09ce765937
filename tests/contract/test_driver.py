"""The private names of Textual that we rely on still behave as tui.terminal.driver and tui.terminal.input describe."""

from __future__ import annotations

import inspect

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import _MAX_SEQUENCE_SEARCH_THRESHOLD, XTermParser
from textual.drivers import _writer_thread, linux_driver
from textual.drivers.linux_driver import LinuxDriver

from tui.terminal.driver import TerminalDriver
from tui.terminal.input import _LONGEST_SEQUENCE, TerminalInput

_OVERRIDDEN = (
    "start_application_mode",
    "stop_application_mode",
    "suspend_application_mode",
    "write",
    "disable_input",
    "send_message",
    "_run_input_thread",
    "_sigtstp_application",
    "_sigcont_application",
)


def test_textual_asks_for_what_we_have_put_in_its_place() -> None:
    assert all(name in vars(TerminalDriver) and hasattr(LinuxDriver, name) for name in _OVERRIDDEN)
    started = inspect.getsource(LinuxDriver.start_application_mode)
    assert "WriterThread(self._file)" in started
    assert "self._key_thread = Thread(target=self._run_input_thread" in started
    assert "self.attrs_before = termios.tcgetattr" in started
    assert "self.disable_input()" in inspect.getsource(LinuxDriver.stop_application_mode)
    assert "self._in_band_window_resize" in inspect.getsource(linux_driver)


def test_the_writer_asks_its_file_for_no_more_than_ours_has() -> None:
    source = inspect.getsource(_writer_thread.WriterThread)
    asked = {part.split("(")[0].split("\n")[0].strip() for part in source.split("self._file.")[1:]}
    assert asked <= {"write", "flush", "fileno"}


def test_the_parser_looks_at_no_longer_sequences_than_we_cut() -> None:
    assert _MAX_SEQUENCE_SEARCH_THRESHOLD <= _LONGEST_SEQUENCE


def test_the_parser_still_loses_an_escape_before_other_keys_than_letters() -> None:
    read = XTermParser()
    (key,) = read._sequence_to_key_events(":", alt=True)
    assert key.key == "colon"
    assert "reissue_sequence_as_keys(sequence, process_alt=process_alt)" in inspect.getsource(XTermParser.parse)
    assert "self._sequence_to_key_events" in inspect.getsource(XTermParser.parse)


def test_the_parser_still_fails_on_what_it_is_guarded_against() -> None:
    failures = []
    for sequence in ("\x1b[99999999999u", "\x1b[:1u"):
        try:
            list(XTermParser().feed(sequence))
        except (OverflowError, ValueError) as error:
            failures.append(type(error))
    assert failures == [OverflowError, ValueError]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"\x1b[", b"\x1b[<", b"\x1b[200~", b";1u"]))))
def test_no_bytes_make_it_fail_and_keys_are_still_read_behind_them(pieces: list[bytes]) -> None:
    now = 0.0
    read = TerminalInput(clock=lambda: now)
    for piece in pieces:
        keys = [message for message in read.feed(piece) if isinstance(message, events.Key)]
        assert not any("\ud800" <= letter <= "\udfff" for key in keys for letter in key.character or "")
    now += 10.0
    list(read.tick())
    messages = list(read.feed(b"\x1b[27uzz"))
    now += 10.0
    found = [message.key for message in [*messages, *read.tick()] if isinstance(message, events.Key)]
    assert found[-2:] == ["z", "z"]
