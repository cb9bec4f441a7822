"""The two grammars of the parameter `filter`: AIP-160, and `field eq regular-expression`.

They cannot be mixed in one request. Pure: text in, a predicate over JSON objects out.
"""

import re

TOKEN = re.compile(
    r"""\s*(?:
      (?P<paren>[()])
    | (?P<operator><=|>=|!=|=|<|>|:)
    | (?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<word>[^\s()=<>!:"']+)
    )""",
    re.VERBOSE,
)
REGULAR = re.compile(
    r"""\s*(?P<field>[A-Za-z_][\w.\-]*)\s+(?P<operator>eq|ne)\s+(?P<literal>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\S+)\s*"""
)
FIELD = re.compile(r"[A-Za-z_][\w\-]*(\.[A-Za-z_][\w\-]*)*")


class Malformed(ValueError):
    """The text is of neither grammar."""


def parse(text):
    """A function from a resource to whether the filter selects it. Raises `Malformed`."""
    if re.search(r"\s(eq|ne)\s", text):
        return _regular(text)
    return _Parser(text).whole()


def _regular(text):
    parts = _parenthesized(text) if text.lstrip().startswith("(") else [text]
    tests = []
    for part in parts:
        match = REGULAR.fullmatch(part)
        if not match:
            raise Malformed(text)
        try:
            pattern = re.compile(_unquoted(match["literal"]))
        except re.error as error:
            raise Malformed(str(error)) from error
        tests.append((match["field"], match["operator"] == "eq", pattern))

    def selects(resource):
        for field, wanted, pattern in tests:
            found, value = lookup(resource, field)
            if bool(found and pattern.fullmatch(_text(value))) != wanted:
                return False
        return True

    return selects


def _parenthesized(text):
    """The parts of `(a) (b)`, which may be joined by AND."""
    parts, depth, start, quote = [], 0, 0, None
    for index, character in enumerate(text):
        if quote:
            if character == quote and text[index - 1] != "\\":
                quote = None
        elif character in "\"'":
            quote = character
        elif character == "(":
            depth += 1
            if depth == 1:
                start = index + 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                parts.append(text[start:index])
        elif depth == 0 and not character.isspace() and character not in "AND":
            raise Malformed(text)
    if depth or quote:
        raise Malformed(text)
    return parts


def _unquoted(literal):
    if literal[:1] in "\"'" and literal[-1:] == literal[:1] and len(literal) > 1:
        return re.sub(r"\\(.)", r"\1", literal[1:-1]) if literal[0] in literal[1:-1] else literal[1:-1]
    return literal


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def lookup(resource, field):
    """Whether the resource has the field, and its value. A label's key may have dots, so the longest key wins."""
    if not isinstance(resource, dict):
        return False, None
    if field in resource:
        return True, resource[field]
    head, dot, rest = field.partition(".")
    return lookup(resource[head], rest) if dot and head in resource else (False, None)


class _Parser:
    """AIP-160: OR binds tighter than AND, and expressions beside each other are joined by AND."""

    def __init__(self, text):
        self._text = text
        self._tokens = []
        position = 0
        while text[position:].strip():
            match = TOKEN.match(text, position)
            if not match:
                raise Malformed(text)
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self._position = 0

    def whole(self):
        if not self._tokens:
            raise Malformed(self._text)
        selects = self._expression()
        if self._peek() is not None:
            raise Malformed(self._text)
        return selects

    def _peek(self):
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _take(self, kind):
        token = self._peek()
        if token is None or token[0] != kind:
            raise Malformed(self._text)
        self._position += 1
        return token[1]

    def _expression(self):
        parts = [self._alternatives()]
        while self._peek() not in (None, ("paren", ")")):
            if self._peek() == ("word", "AND"):
                self._position += 1
            parts.append(self._alternatives())
        return lambda resource: all(part(resource) for part in parts)

    def _alternatives(self):
        parts = [self._term()]
        while self._peek() == ("word", "OR"):
            self._position += 1
            parts.append(self._term())
        return lambda resource: any(part(resource) for part in parts)

    def _term(self):
        if self._peek() == ("word", "NOT"):
            self._position += 1
            inner = self._term()
            return lambda resource: not inner(resource)
        if self._peek() == ("paren", "("):
            self._position += 1
            inner = self._expression()
            if self._take("paren") != ")":
                raise Malformed(self._text)
            return inner
        return self._comparison()

    def _comparison(self):
        field = self._take("word")
        negative = field.startswith("-")
        field = field.removeprefix("-")
        if not FIELD.fullmatch(field):
            raise Malformed(self._text)
        operator = self._take("operator")
        kind, literal = self._peek() or ("", "")
        if kind not in ("word", "quoted"):
            raise Malformed(self._text)
        self._position += 1
        value = re.sub(r"\\(.)", r"\1", literal[1:-1]) if kind == "quoted" else literal
        compare = _comparison(operator, value, kind == "quoted")

        def selects(resource):
            return compare(*lookup(resource, field)) != negative

        return selects


def _comparison(operator, wanted, quoted):
    if operator == ":":
        if wanted == "*" and not quoted:
            return lambda found, _: found
        return lambda found, value: (
            found and (wanted in value if isinstance(value, (list, dict)) else wanted in _text(value))
        )
    if operator in ("=", "!="):
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("*")), re.DOTALL)
        equal = operator == "="
        return lambda found, value: bool(found and pattern.fullmatch(_text(value))) == equal

    def compare(found, value):
        if not found:
            return False
        try:
            left, right = float(value), float(wanted)
        except (TypeError, ValueError):
            left, right = _text(value), wanted
        return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]

    return compare
