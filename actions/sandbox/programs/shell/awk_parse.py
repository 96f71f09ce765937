"""The text of an awk program as a tree of lists."""

from __future__ import annotations

import re
from typing import Any

import msgspec

Node = list[Any]
"""An operator with its operands, or a statement with its parts."""

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\#[^\n]*|\\\n)|(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|(?P<name>[A-Za-z_]\w*)"""
    r"""|"(?P<text>(?:[^"\\\n]|\\.)*)"|(?P<sign>\+\+|--|[-+*/]=|==|!=|<=|>=|!~|&&|\|\||[-+*/<>=!~$(){}\[\];,\n])""",
    re.VERBOSE,
)
_REGEX = re.compile(r"/((?:[^/\\\n]|\\.)+)/")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_ENDS = (";", "\n", "}", "")


class AwkError(Exception):
    """A program that is wrong, or more than the sandbox's awk can do."""


class Item(msgspec.Struct, frozen=True):
    """One `pattern { action }`: `when` is BEGIN, END or empty; without a pattern it applies to every line."""

    when: str
    pattern: Node | None
    action: Node


def parse_program(text: str) -> list[Item]:
    """Return the items of a program.

    Raises:
        AwkError: It is wrong.
    """
    parser = _Parser(_tokens(text))
    items = []
    while parser.skip_ends():
        items.append(parser.item())
    return items


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return kind and text of each token; a slash where no operand has ended begins a regular expression."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        has_operand = bool(found) and (found[-1][0] in ("number", "name", "text") or found[-1][1] in (")", "]"))
        match = None if has_operand else _REGEX.match(text, place)
        if match is not None:
            found.append(("regex", match[1]))
        else:
            match = _TOKEN.match(text, place)
            if match is None:
                raise AwkError(f"{text[place : place + 10]!r} is not understood")
            if match.lastgroup != "space":
                found.append((str(match.lastgroup), match[match.lastgroup or 0]))
        place = match.end()
    return [*found, ("end", "")]


class _Parser:
    """A parser by recursive descent, from the loosest operator to the tightest."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._place = 0

    def skip_ends(self) -> bool:
        """Skip line ends and semicolons; return whether anything is left."""
        while self._is_sign(";", "\n"):
            self._place += 1
        return self._tokens[self._place][0] != "end"

    def item(self) -> Item:
        """Return the next `pattern { action }`."""
        when, pattern = "", None
        if self._tokens[self._place] in (("name", "BEGIN"), ("name", "END")):
            when = self._next()[1]
        elif not self._is_sign("{"):
            pattern = self._expression()
        return Item(when, pattern, self._block() if self._is_sign("{") else ["print", []])

    def _block(self) -> Node:
        self._expect("{")
        statements = []
        while self.skip_ends() and not self._is_sign("}"):
            statements.append(self._statement())
            if not self._is_sign(*_ENDS) and self._tokens[self._place - 1] != ("sign", "}"):
                raise AwkError(f"{self._tokens[self._place][1]!r} is more than the sandbox's awk can do")
        self._expect("}")
        return ["block", statements]

    def _statement(self) -> Node:
        if self._is_sign("{"):
            return self._block()
        match self._tokens[self._place]:
            case ("name", "if"):
                return self._if()
            case ("name", "for"):
                return self._for()
            case ("name", "print" | "printf" as word):
                self._next()
                return [word, [] if self._is_sign(*_ENDS) else self._list()]
            case ("name", "exit"):
                self._next()
                return ["exit", None if self._is_sign(*_ENDS) else self._expression()]
            case ("name", "next"):
                self._next()
                return ["next"]
        return self._expression()

    def _if(self) -> Node:
        self._next()
        self._expect("(")
        condition = self._expression()
        self._expect(")")
        then = self._statement()
        before = self._place
        if self.skip_ends() and self._tokens[self._place] == ("name", "else"):
            self._next()
            return ["if", condition, then, self._statement()]
        self._place = before
        return ["if", condition, then, None]

    def _for(self) -> Node:
        self._next()
        self._expect("(")
        names = [token[1] for token in self._tokens[self._place : self._place + 4]]
        if len(names) == 4 and names[1] == "in" and names[3] == ")":
            self._place += 4
            return ["in", names[0], names[2], self._statement()]
        first = self._expression()
        self._expect(";")
        condition = self._expression()
        self._expect(";")
        step = self._expression()
        self._expect(")")
        return ["for", first, condition, step, self._statement()]

    def _list(self) -> list[Node]:
        values = [self._expression()]
        while self._is_sign(","):
            self._next()
            values.append(self._expression())
        return values

    def _expression(self) -> Node:
        left = self._or()
        if self._is_sign("=", "+=", "-=", "*=", "/="):
            sign = self._next()[1]
            return ["set", left, sign, self._expression()]
        return left

    def _or(self) -> Node:
        left = self._and()
        while self._is_sign("||"):
            self._next()
            left = ["or", left, self._and()]
        return left

    def _and(self) -> Node:
        left = self._match()
        while self._is_sign("&&"):
            self._next()
            left = ["and", left, self._match()]
        return left

    def _match(self) -> Node:
        left = self._comparison()
        while self._is_sign("~", "!~"):
            sign = self._next()[1]
            kind, text = self._next()
            if kind != "regex":
                raise AwkError("behind ~ there must be a regular expression")
            left = ["match", left, _regex(text), sign == "~"]
        return left

    def _comparison(self) -> Node:
        left = self._sum()
        if self._is_sign(*_COMPARISONS):
            return [self._next()[1], left, self._sum()]
        return left

    def _sum(self) -> Node:
        left = self._product()
        while self._is_sign("+", "-"):
            left = [self._next()[1], left, self._product()]
        return left

    def _product(self) -> Node:
        left = self._unary()
        while self._is_sign("*", "/"):
            left = [self._next()[1], left, self._unary()]
        return left

    def _unary(self) -> Node:
        if self._is_sign("!", "-"):
            return ["not" if self._next()[1] == "!" else "minus", self._unary()]
        if self._is_sign("++", "--"):
            change = 1.0 if self._next()[1] == "++" else -1.0
            return ["count", self._primary(), change, True]
        operand = self._primary()
        if self._is_sign("++", "--"):
            return ["count", operand, 1.0 if self._next()[1] == "++" else -1.0, False]
        return operand

    def _primary(self) -> Node:
        kind, text = self._next()
        match kind, text:
            case "number", _:
                return ["is", float(text)]
            case "text", _:
                return ["is", re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)]
            case "regex", _:
                return ["regex", _regex(text)]
            case "sign", "$":
                return ["field", self._primary()]
            case "sign", "(":
                inner = self._expression()
                self._expect(")")
                return inner
            case "name", _ if self._is_sign("["):
                self._next()
                key = self._expression()
                self._expect("]")
                return ["element", text, key]
            case "name", _ if not self._is_sign("("):
                return ["name", text]
        raise AwkError(f"{text or 'the end'!r} is more than the sandbox's awk can do")

    def _is_sign(self, *signs: str) -> bool:
        kind, text = self._tokens[self._place]
        return kind in ("sign", "end") and text in signs

    def _expect(self, sign: str) -> None:
        if not self._is_sign(sign):
            raise AwkError(f"{sign!r} is missing before {self._tokens[self._place][1]!r}")
        self._place += 1

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._place]
        if token[0] != "end":
            self._place += 1
        return token


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.replace(r"\/", "/"))
    except re.error as error:
        raise AwkError(f"/{text}/: {error}") from None
