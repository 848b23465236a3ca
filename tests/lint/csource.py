# SPDX-License-Identifier: MIT
"""Just enough of a reader of C for the lint.

Not a compiler: it knows comments, literals, preprocessor lines and braces,
which is all that our own style needs.  Everything that is blanked out keeps
its line breaks, so offsets and line numbers stay those of the file.
"""
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      |(?P<literal>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"]",
                      re.MULTILINE)
_CALLEE = re.compile(r"([A-Za-z_]\w*)\s*\($")


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


@dataclass
class Function:
    """A definition, or a prototype when body_end is 0; lines count from 1."""
    name: str
    head: str
    line: int
    body_end: int

    @property
    def length(self):
        return self.body_end - self.line + 1


class Source:
    """One C file in the views that the rules ask for."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        self.comments = []

        def blank(match):
            if match.group("comment"):
                self.comments.append(match.group())
                return _blank(match.group())
            quote = match.group()[0]
            return quote + _blank(match.group()[1:-1]) + quote

        # Code without comments and without what stands in literals.
        self.code = _TOKEN.sub(blank, text)
        # ... and without preprocessor lines.
        self.plain = _DIRECTIVE.sub(lambda m: _blank(m.group()), self.code)

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def includes(self):
        """(line, quote, name) of each include."""
        # Literals are blank in code, so names come from the text; a match
        # counts only where code has an include too.
        for match in _INCLUDE.finditer(self.text):
            if "include" in self.code[match.start():match.end()]:
                yield (self.line_of(match.start(1)), match.group(1),
                       match.group(2))

    def calls(self, names):
        """(line, name) of each call of a plain function of that name."""
        pattern = r"(?<![\w.])(?<!->)(%s)\s*\(" % "|".join(
            map(re.escape, names))
        for match in re.finditer(pattern, self.code):
            yield self.line_of(match.start(1)), match.group(1)

    def functions(self):
        """Definitions and prototypes at file level, in order."""
        text = re.sub(r'extern\s+"[^"]*"\s*\{', lambda m: _blank(m.group()),
                      self.plain)
        depth = 0
        start = 0
        head = None
        for match in re.finditer(r"[{};]", text):
            mark = match.group()
            if mark == "{":
                if depth == 0:
                    head = (start, match.start())
                depth += 1
            elif mark == "}":
                depth = max(0, depth - 1)
                if depth == 0:
                    if head:
                        function = self._function(text, *head)
                        if function:
                            function.body_end = self.line_of(match.start())
                            yield function
                    head = None
                    start = match.end()
            elif depth == 0:
                function = self._function(text, start, match.start())
                if function:
                    yield function
                start = match.end()

    def _function(self, text, start, end):
        """The function whose head is text[start:end], or None."""
        head = text[start:end]
        if re.search(r"\btypedef\b|=", head):
            return None
        lead = len(head) - len(head.lstrip())
        rest = re.sub(r"__attribute__\s*\(\(.*?\)\)", lambda m:
                      _blank(m.group()), head)
        opening = rest.find("(")
        if opening < 0 or rest[opening + 1:].lstrip().startswith("*"):
            return None
        callee = _CALLEE.search(rest[:opening + 1])
        if not callee:
            return None
        return Function(callee.group(1), head.strip(),
                        self.line_of(start + lead), 0)
