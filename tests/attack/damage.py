"""What happens to files: flips, cuts, zeros, swaps, JSON of another shape."""

import copy
import json

# In place of any value in a JSON file.
HOSTILE = (
    None,
    True,
    0,
    -1,
    7,
    10**30,
    0.5,
    1e308,
    "",
    "x",
    "nan",
    "../../x",
    "<img src=x onerror=alert(1)>\n|`]({{ 7 * 7 }}",
    "é\u2028\x00",
    "x" * 5000,
    [],
    [None],
    [[]],
    {},
    {"": {}},
)
TEXTS = (
    "",
    "{}",
    "[]",
    "null",
    "NaN",
    "1e999",
    '"x"',
    "[" * 5000,
    '{"a":' * 5000,
    "\ufeff{}",
    "\x00",
)


def damage_bytes(rng, content, other=b""):
    """Different bytes than `content`, which is not empty.

    Args:
        rng: `random.Random`.
        content: of a file.
        other: of another file, which may take its place in part.
    """
    while True:
        damaged = bytearray(content)
        at = rng.randrange(len(damaged))
        end = min(len(damaged), at + rng.choice((1, 2, 16, 4096)))
        kind = rng.randrange(8)
        if kind == 0:
            for _ in range(rng.choice((1, 1, 1, 8))):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del damaged[at:]
        elif kind == 2:
            del damaged[at:end]
        elif kind == 3:
            damaged[at:end] = bytes(end - at)
        elif kind == 4:
            damaged[at:at] = rng.randbytes(end - at)
        elif kind == 5:
            damaged += damaged[at:end]
        elif kind == 6:
            damaged[at:end] = other[at:end] or rng.randbytes(end - at)
        else:
            damaged = bytearray(other or rng.randbytes(rng.randrange(99)))
        if damaged != content:
            return bytes(damaged)


def damage_json(rng, content):
    """Bytes of JSON with one value, key or element changed."""
    if rng.random() < 0.05:
        return rng.choice(TEXTS).encode()
    whole = json.loads(content)
    while True:
        value = [copy.deepcopy(whole)]
        parents = list(_containers(value))
        parent = rng.choice(parents)
        name = rng.choice(list(_names(parent)))
        kind = rng.randrange(4)
        if kind == 0 and parent is not value:
            del parent[name]
        elif kind == 1 and isinstance(parent, dict):
            parent[f"{name}_"] = parent.pop(name)
        elif kind == 2 and isinstance(parent, list):
            parent.append(parent[name])
        else:
            parent[name] = copy.deepcopy(rng.choice(HOSTILE))
        if value and json.dumps(value[0]) != json.dumps(whole):
            return json.dumps(value[0]).encode()


def _names(container):
    return container if isinstance(container, dict) else range(len(container))


def _containers(value):
    """All lists and objects in a value that hold anything, itself first."""
    if isinstance(value, dict | list) and value:
        yield value
        children = value.values() if isinstance(value, dict) else value
        for child in children:
            yield from _containers(child)


def damage_file(rng, path, other=b""):
    """Writes something else into a file; one of ours that is JSON may stay so.

    Args:
        rng: `random.Random`.
        path: `pathlib.Path` of the file.
        other: see `damage_bytes`.
    """
    content = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_bytes(damage_json(rng, content))
    elif path.suffix == ".jsonl" and rng.random() < 0.7:
        lines = content.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = damage_json(rng, lines[at])
        path.write_bytes(b"\n".join(lines) + b"\n")
    else:
        path.write_bytes(damage_bytes(rng, content, other))
