"""The filter of everything that goes into an archive: known secrets, likely credentials, and names that are masked.

`redact` hides what a process has read as a secret. An archive leaves the machine, so more is taken for a secret here:
values behind names such as `password` or `token`, private keys, passwords in addresses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from actions.base.errors import ConfigError
from actions.base.files import read_file
from actions.base.untrusted import KNOWN, REDACTED, redact
from actions.base.yamldoc import load_foreign
from actions.run.context.secrets import resolve_secret
from actions.run.journal.folder import kubeconfig_path, load_environment

_SECRET_NAME = re.compile(
    r"(?i)(?:password|passwd|passphrase|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|client[_-]?key"
    r"|credential)s?(?:[_-]?(?:data|value|id))?$"
)
"""Names of variables and keys whose values are secrets."""
_REFERENCES = ("env:", "file:", "secretsmanager:", "${", REDACTED)
_NAMED_VALUE = re.compile(
    r"""(?ix)
    (?P<head>(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?
             |authorization)(?:[_-]?(?:data|value))?\\?["']?\s{0,3}[:=]\s{0,3}\\?["']?(?:bearer\s{1,3}|basic\s{1,3})?)
    (?P<value>[^\s"',;{}()\[\]&\\]{4,4096})
    """
)
_NO_SECRETS = re.compile(r"(?i)null|none|true|false|[\d.,%]+")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
_KEY_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_LINE = re.compile(r"(?:[A-Za-z0-9+/=]{4,128}\\n)*[A-Za-z0-9+/=]{4,128}(?:\\n)?\r?$")
"""The end of a line of a key, behind the prefix of a log; `\\n` where JSON wrote the newline."""
_KEY_LINES = 200
_LIKELY = re.compile(
    r"(?<=://)[^\s/:@\"']{0,128}:[^\s/@\"']{1,256}(?=@)"
    r"|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bglpat-[A-Za-z0-9_-]{20,}|\bAIza[A-Za-z0-9_-]{30,}"
    r"|(?<=://hooks\.slack\.com/services/)[A-Za-z0-9_/-]{8,512}"  # whoever has the path may write there
)
_ACCOUNT = re.compile(
    r"(?<=:)\d{12}(?=:)|\b\d{12}(?=\.dkr\.ecr\.)|(?i:(?<=account[ =:])|(?<=account\":\")|(?<=account_id\":\"))\d{12}\b"
)
_PERSON = re.compile(r"(?<=:user/)[\w+=,.@/-]{1,512}|(?<=:assumed-role/)[\w+=,.@-]{1,128}/[\w+=,.@-]{1,128}")
_HOST = re.compile(
    r"\bip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\.[a-z0-9-]{1,63}){0,6}"
    r"|\b[0-9A-Fa-f]{32}(?:\.[a-z0-9-]{1,63}){1,4}\.eks\.amazonaws\.com(?:\.cn)?"
    r"|\b[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,4}\.(?:compute|ec2)\.(?:internal|amazonaws\.com)(?:\.cn)?"
    r"|(?<![\d.])(?!127\.|0\.0\.0\.0)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?!\.?\d)"
)
_LARGEST_BYTES = 4 << 20
_SHORTEST_NAME = 3


class SupportFilter:
    """The filter of one archive. The same name is masked by the same word in all of its files.

    Args:
        masked: Further names to mask, each with the word that its mask begins with: `{"bastion-7": "host"}`; `None` to
            mask nothing.
    """

    def __init__(self, masked: Mapping[str, str] | None) -> None:
        self._is_masked = masked is not None
        self._masks: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._home = str(Path.home())
        known = sorted((name for name in masked or {} if len(name) >= _SHORTEST_NAME), key=len, reverse=True)
        self._words = dict(masked or {})
        self._known = (
            re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in known)) if known else None
        )

    def text(self, text: str) -> str:
        """Return a text without secrets, and masked."""
        text = _without_cut_keys(_PRIVATE_KEY.sub(REDACTED, redact(text)))
        text = _LIKELY.sub(REDACTED, _NAMED_VALUE.sub(_hidden, text))
        if len(self._home) > 1:
            text = re.sub(rf"{re.escape(self._home)}(?=[/\s\"':,]|\Z)", "~", text)
        return self._masked(text) if self._is_masked else text

    def data(self, data: bytes) -> bytes:
        """Return the bytes of a text, in UTF-8, without secrets, and masked."""
        return self.text(data.decode("utf-8", "replace")).encode("utf-8", "replace")

    def _masked(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(lambda match: self._mask(match[0], self._words[match[0]]), text)
        text = _PERSON.sub(lambda match: self._mask(match[0], "user"), text)
        text = _ACCOUNT.sub(lambda match: self._mask(match[0], "account"), text)
        return _HOST.sub(lambda match: self._mask(match[0], "host"), text)

    def _mask(self, name: str, word: str) -> str:
        if name not in self._masks:
            self._counts[word] = self._counts.get(word, 0) + 1
            self._masks[name] = f"{word}-{self._counts[word]}"
        return self._masks[name]


def _without_cut_keys(text: str) -> str:
    """Return a text without private keys whose first line is not in it: logs are cut."""
    if _KEY_END.search(text) is None:
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        end = _KEY_END.search(line)
        if end is None:
            continue
        lines[number] = _KEY_LINE.sub(REDACTED, line[: end.start()]) + REDACTED + line[end.end() :]
        for before in range(number - 1, max(-1, number - 1 - _KEY_LINES), -1):
            cut = _KEY_LINE.sub(REDACTED, lines[before])
            if cut == lines[before]:
                break
            lines[before] = cut
    return "\n".join(lines)


def _hidden(match: re.Match[str]) -> str:
    value = match["value"]
    if value.startswith(_REFERENCES) or _NO_SECRETS.fullmatch(value):
        return match[0]
    return match["head"] + REDACTED


def learn_secrets(folder: Path, parameters: Mapping[str, object], environment: Mapping[str, str]) -> None:
    """Make the secrets of a run known to this process, so that they are hidden: those that can be read here.

    Args:
        folder: The run's folder.
        parameters: Its parameters; references among them are read.
        environment: The variables of this process.
    """
    try:
        own = load_environment(folder)
    except ConfigError:
        own = {}
    for name, value in [*environment.items(), *own.items()]:
        if _SECRET_NAME.search(name):
            KNOWN.add(value, f"${{env:{name}}}")
    for parameter in parameters.values():
        if isinstance(parameter, str) and parameter.startswith(("env:", "file:")):
            try:
                resolve_secret(parameter)
            except ConfigError:
                continue  # what is not there cannot be in a file either, but for what pods have printed
    files = [kubeconfig_path(folder), *folder.glob("terraform/*/*.tfvars.json"), *folder.glob("terraform/*/*.tfstate")]
    for file in files:
        for value in _secrets_in(_document(file)):
            KNOWN.add(value, REDACTED)


def _document(file: Path) -> object:
    try:
        data = read_file(file, _LARGEST_BYTES)
        return json.loads(data) if file.suffix in (".json", ".tfstate") else load_foreign(data.decode())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _secrets_in(value: Any) -> Iterator[str]:
    """Yield the texts below keys that name secrets, and those that Terraform marks as sensitive."""
    match value:
        case dict():
            if value.get("sensitive") is True:
                yield from _texts(value.get("value"))
            for key, item in value.items():
                if isinstance(key, str) and _SECRET_NAME.search(key):
                    yield from _texts(item)
                yield from _secrets_in(item)
        case list():
            for item in value:
                yield from _secrets_in(item)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str() if value and not value.startswith(_REFERENCES) and not _NO_SECRETS.fullmatch(value):
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
