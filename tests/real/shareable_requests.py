"""The requests of the procedure, how their answers are compared, and arguments that are generated."""

import json
import re
from dataclasses import dataclass, field

from direct_arguments import Generator

SEED = 14
UNFIT_PER_TOOL = 4
VARIED_PER_TOOL = 12


@dataclass
class Request:
    """A request that the procedure sends. `expect` is text of a successful result, None if the call may fail. What the
    patterns in `times` match is the current time, and is not compared."""
    method: str
    params: dict
    expect: str | None = None
    times: list = field(default_factory=list)

    def __str__(self):
        if self.method == "tools/call":
            return f"{self.params['name']} {json.dumps(self.params['arguments'], ensure_ascii=False)[:80]}"
        return f"{self.method} {self.params.get('uri') or self.params.get('name')}"


def call(tool, arguments, expect=None, times=()):
    return Request("tools/call", {"name": tool, "arguments": arguments}, expect, list(times))


def normal(request, answer):
    """An answer as text, without the current time where the request says that it has it."""
    text = json.dumps(answer, sort_keys=True, ensure_ascii=False)
    for pattern in request.times:
        text = re.sub(pattern, "TIME", text)
    return text


def failed(answer):
    return not isinstance(answer, dict) or bool(answer.get("isError")) or "error" in answer


def difference(one, other):
    """The first place where two texts differ, as `this` instead of `that`."""
    at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    start = max(0, at - 30)
    return f"{one[start:at + 60]!r} instead of {other[start:at + 60]!r}"


class OneWord(Generator):
    """Generates arguments in which each text is the same word, and each number the same."""

    def __init__(self, schema, files, word, number):
        super().__init__(schema, files, SEED)
        self.word, self.number = word, number

    def value(self, schema, name="", depth=0):
        resolved = self.resolve(schema)
        free = not any(resolved.get(key) not in (None, "", []) for key in ("const", "default", "enum"))
        if free and self.kind(resolved) in ("integer", "number"):
            return max(self.number, int(resolved.get("minimum", self.number)))
        return super().value(schema, name, depth)

    def text(self, schema, name):
        text = super().text(schema, name)
        return self.word if text.split()[0] in ("one", "two", "three", "alpha") else text


def varied(schema, arguments):
    """Yields the arguments of a call that succeeds with another value of one property: what a call sets for itself must
    not stay set for others."""
    generator = OneWord(schema, "", "one", 1)
    root = generator.resolve(schema)
    for name, each in root.get("properties", {}).items():
        each, kind = generator.resolve(each), generator.kind(each)
        number = each.get("default") if isinstance(each.get("default"), (int, float)) else 1
        values = each.get("enum") or {"boolean": [not each.get("default")], "integer": [number - 1, number + 1],
                                      "number": [number - 1, number + 1]}.get(kind, [])
        for value in values[:4]:
            yield {**arguments, name: value}


def generated_calls(tools, calls, files):
    """Calls with arguments that are made from the schemas. All tools get the same words, so that one can find under a
    name what another one kept under it. Some arguments do not fit the schema."""
    generated = []
    for name, tool in tools.items():
        schema = tool.get("inputSchema", {})
        own = [each for each in calls if each.params["name"] == name]
        times = sorted({pattern for each in own for pattern in each.times})
        objects = []
        for word, number in (("one", 1), ("two", 2)):
            generator = OneWord(schema, files, word, number)
            objects += [generator.members(generator.resolve(schema), all_of_them) for all_of_them in (False, True)]
        objects += [arguments for _, arguments in zip(range(VARIED_PER_TOOL), varied(schema, own[0].params["arguments"]))]
        unfit = (arguments for what, arguments in Generator(schema, files, SEED).objects() if what != "valid")
        objects += [arguments for _, arguments in zip(range(UNFIT_PER_TOOL), unfit)]
        generated += [call(name, arguments, None, times)
                      for at, arguments in enumerate(objects) if arguments not in objects[:at]]
    return generated
