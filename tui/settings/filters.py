"""The filter of a table: words, expressions, loose words, and selectors that the server applies."""

from __future__ import annotations

import re

import msgspec

from actions.base.errors import ParameterError

_TOKEN = re.compile(r"\s*(?:(!?)/((?:[^/\\]|\\.)+)/(?=\s|$)|(\S+))")
"""A `/expression/` with spaces if need be, or a word. What begins with a slash and does not end in one is a word."""
_SELECTOR = re.compile(
    r"""\s+(?: '(?P<single>[^']*)'(?=\s|$) | "(?P<double>[^"]*)"(?=\s|$)
          | (?P<set>\S+\s+(?:in|notin)\s*\([^()]*\)(?:\s*,\s*\S+)*) | (?P<word>\S+) )""",
    re.VERBOSE,
)
"""The value of a flag: in quotes anything, `key in (a, b)` also without them, else a word."""
_SELECTORS = {"-l": "labels", "-F": "fields"}
_LOOSE = "-f"
_SELECTOR_HINT = "For instance -l 'tier in (web, db)'."


class FilterTerm(msgspec.Struct, frozen=True):
    """One part of a filter, which a row matches or, if `is_inverse`, must not match.

    Args:
        text: Word in lower case, or expression.
        kind: `word`: contained; `regex`: an RE2 expression; `loose`: its letters in this order within one word.
        is_inverse: Rows that match are left out.
    """

    text: str
    kind: str = "word"
    is_inverse: bool = False

    def matches(self, text: str, lowered: str) -> bool:
        """Return whether a row's text passes; `lowered` is the same in lower case."""
        return self._is_in(text, lowered) is not self.is_inverse

    def _is_in(self, text: str, lowered: str) -> bool:
        if self.kind == "word":
            return self.text in lowered
        if self.kind == "loose":
            return any(_has_letters(word, self.text) for word in lowered.split())
        from actions.base.patterns import compile_pattern

        return compile_pattern(_with_case(self.text)).search(text)


class RowFilter(msgspec.Struct, frozen=True):
    """A filter as typed after `/`, read.

    Args:
        terms: All of them must pass.
        labels: Label selector for the server; empty for none.
        fields: Field selector for the server; empty for none.
        text: The terms as they were typed, without selectors.
    """

    terms: tuple[FilterTerm, ...] = ()
    labels: str = ""
    fields: str = ""
    text: str = ""

    @property
    def has_selectors(self) -> bool:
        """True if the server has a part in it."""
        return bool(self.labels or self.fields)

    def matches(self, text: str, lowered: str) -> bool:
        """Return whether a row with that text passes."""
        return all(term.matches(text, lowered) for term in self.terms)


def parse_filter(text: str) -> RowFilter:
    """Read a filter: `word`, `!word`, `/regex/`, `!/regex/`, `-f loose`, `-l label=value`, `-F field=value`.

    A selector with spaces stands in quotes, `-l 'tier in (web, db), !canary'`; one like `tier in (web, db)` needs none.

    Raises:
        ParameterError: An expression is not valid, or a selector is missing behind its flag or not closed, or a
            parenthesis in it.
    """
    terms: list[FilterTerm] = []
    typed: list[str] = []
    selectors: dict[str, str] = {}
    at = 0
    while (found := _TOKEN.match(text, at)) is not None:
        at = found.end()
        shown, term = _term_of(found)
        if shown in _SELECTORS or shown == _LOOSE:
            value, at = _behind(shown, text, at)
            if shown == _LOOSE:
                terms.append(FilterTerm(value.lower(), "loose"))
                typed.append(f"{shown} {value}")
            else:
                name = _SELECTORS[shown]
                if name == "labels":
                    require_selector(value)
                selectors[name] = ",".join(filter(None, (selectors.get(name, ""), value)))
            continue
        if term.kind == "regex":
            _require_valid(term.text)
        terms.append(term)
        typed.append(shown)
    return RowFilter(tuple(terms), selectors.get("labels", ""), selectors.get("fields", ""), " ".join(typed))


def require_selector(selector: str) -> None:
    """Refuse a label selector with a parenthesis that is left open, or that closes nothing.

    A server would name a character that it missed, and no part of what was typed.

    Raises:
        ParameterError: It is refused.
    """
    rest = re.sub(r"\([^()]*\)", "", selector)
    if "(" in rest or ")" in rest:
        fault = "is not closed" if "(" in rest else "closes nothing"
        raise ParameterError(f"A parenthesis in the selector {selector!r} {fault}.", hint=_SELECTOR_HINT)


def selectors_as_typed(labels: str, fields: str) -> str:
    """Return selectors with their flags, as `parse_filter` reads them; in quotes if there are spaces."""
    return " ".join(f"{flag} {_quoted(value)}" for flag, value in (("-l", labels), ("-F", fields)) if value)


def _quoted(value: str) -> str:
    return f"'{value}'" if any(character.isspace() for character in value) else value


def _behind(flag: str, text: str, at: int) -> tuple[str, int]:
    """Return the value behind a flag, and where it ends.

    Raises:
        ParameterError: There is none, or a quote is not closed.
    """
    found = _SELECTOR.match(text, at)
    value = "" if found is None else next((part for part in found.groups() if part is not None), "").strip()
    if found is None or not value:
        raise ParameterError(f"The filter has nothing after {flag}.", hint="For instance -l app=web.")
    if found["word"] is not None and value[0] in "\"'":
        raise ParameterError(f"The quote after {flag} is not closed.", hint=_SELECTOR_HINT)
    return value, found.end()


def _term_of(found: re.Match[str]) -> tuple[str, FilterTerm]:
    """Return what was typed, and the part of the filter that it is."""
    sign, pattern, word = found.groups()
    if pattern is not None:
        return f"{sign}/{pattern}/", FilterTerm(pattern.replace("\\/", "/"), "regex", bool(sign))
    is_inverse = word.startswith("!") and len(word) > 1
    return word, FilterTerm(word.removeprefix("!").lower() if is_inverse else word.lower(), "word", is_inverse)


def _require_valid(pattern: str) -> None:
    from actions.base.patterns import PatternError, compile_pattern

    try:
        compile_pattern(_with_case(pattern))
    except PatternError as error:
        raise ParameterError(f"/{pattern}/ cannot be read as a regular expression: {error}.") from error


def _with_case(pattern: str) -> str:
    """Return the expression; case matters only if it has a capital letter."""
    return pattern if pattern != pattern.lower() else f"(?i){pattern}"


def _has_letters(word: str, letters: str) -> bool:
    """Return whether the letters occur in the word, in their order."""
    place = -1
    for letter in letters:
        place = word.find(letter, place + 1)
        if place < 0:
            return False
    return True
