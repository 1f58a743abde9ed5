"""The hashes by which weir compares arguments, messages and results without keeping them. They
are those of weir's own adapters: HASHES.md has the recipe, hashes.json the test vectors."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from decimal import Decimal
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

__all__ = ["hash_args", "hash_content", "sim_args", "simhash", "text_of"]

_M = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = 11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261


def _xxh64(data: bytes) -> int:
    """xxHash64 with seed 0, for where the package xxhash is not installed."""
    n, at = len(data), 0
    if n >= 32:
        a, b, c, d = (_P1 + _P2) & _M, _P2, 0, -_P1 & _M
        while at + 32 <= n:
            a = _round(a, int.from_bytes(data[at : at + 8], "little"))
            b = _round(b, int.from_bytes(data[at + 8 : at + 16], "little"))
            c = _round(c, int.from_bytes(data[at + 16 : at + 24], "little"))
            d = _round(d, int.from_bytes(data[at + 24 : at + 32], "little"))
            at += 32
        h = (_rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)) & _M
        for lane in (a, b, c, d):
            h = ((h ^ _round(0, lane)) * _P1 + _P4) & _M
    else:
        h = _P5
    h = (h + n) & _M
    while at + 8 <= n:
        h = (_rotated(h ^ _round(0, int.from_bytes(data[at : at + 8], "little")), 27) * _P1 + _P4) & _M
        at += 8
    if at + 4 <= n:
        h = (_rotated(h ^ int.from_bytes(data[at : at + 4], "little") * _P1 & _M, 23) * _P2 + _P3) & _M
        at += 4
    for byte in data[at:]:
        h = _rotated(h ^ byte * _P5 & _M, 11) * _P1 & _M
    h = (h ^ h >> 33) * _P2 & _M
    h = (h ^ h >> 29) * _P3 & _M
    return h ^ h >> 32


def _round(acc: int, lane: int) -> int:
    return _rotated((acc + lane * _P2) & _M, 31) * _P1 & _M


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> 64 - by) & _M


_digest: Callable[[bytes], int] = _xxh64
try:  # many times as fast
    import xxhash

    _digest = xxhash.xxh64_intdigest
except ImportError:
    pass

# White space as weir trims it.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_DEPTH = 256
_MOST_WORDS = 1500


def text_of(value: Any) -> str:
    """What is hashed of a value: a text as it is, bytes as UTF-8, anything else as JSON, or as
    str() gives it."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if value is None:
        return ""
    try:
        return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
    except (TypeError, ValueError, RecursionError):
        return _SURROGATE.sub("\ufffd", str(value))


def hash_args(arguments: Any) -> str:
    """The hash of the arguments of a call: JSON as the model wrote it, or the values themselves.
    Neither the order of keys nor white space nor the spelling of a number makes a difference. ""
    for none."""
    text = text_of(arguments).strip(_SPACE)
    return f"xxh64:{_digest(canonical(text).encode()):016x}" if text else ""


def sim_args(arguments: Any) -> str:
    """The fingerprint of the arguments of a call, by which the same call in other words is known.
    Another literal (a word with a digit, or text in quotes inside a string) makes another
    fingerprint. "" for arguments without words."""
    return args_fields(arguments)["args_sim"]


def args_fields(arguments: Any) -> Dict[str, str]:
    """args_hash and args_sim of the arguments of a call; the canonical form is written once."""
    text = text_of(arguments).strip(_SPACE)
    if not text:
        return {"args_hash": "", "args_sim": ""}
    written = canonical(text).encode()
    return {"args_hash": f"xxh64:{_digest(written):016x}", "args_sim": _sim_args(written)}


def hash_content(content: Any) -> str:
    """The hash of a message, an answer or a result. Ids of requests, UUIDs, timestamps, addresses
    and measured durations in it make no difference. "" for none."""
    text = text_of(content).strip(_SPACE).encode()
    return f"xxh64:{_digest(_folded(text)):016x}" if text else ""


# Canonical JSON (RFC 8785).


class _Number(str):
    """A number as it is written."""


def canonical(text: str) -> str:
    """The canonical form of JSON. What is no JSON is taken for a string; a string that holds an
    object or a list for what it holds."""
    try:
        value = _decoded(text)
    except (ValueError, RecursionError):
        return _quoted(text)
    if isinstance(value, str) and not isinstance(value, _Number):
        held = value.strip(_SPACE)
        try:
            return _written(_decoded(held), 0) if held[:1] in ("{", "[") else _quoted(value)
        except (ValueError, RecursionError):
            return _quoted(value)
    try:
        return _written(value, 0)
    except (ValueError, RecursionError):
        return _quoted(text)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _decoded(text: str) -> Any:
    return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_no_number)


def _number(text: str) -> _Number:
    if len(text) <= 15 and text.isdigit():
        return _Number(text)
    f = float(text)
    if math.isinf(f):
        return _Number(text)  # two readers would differ
    if f == 0:
        return _Number("0")
    digits, _, exponent = repr(f).partition("e")
    if 1e-6 <= abs(f) < 1e21:
        plain = format(Decimal(repr(f)), "f")
        return _Number(plain[:-2] if plain.endswith(".0") else plain)
    if not exponent:
        digits, _, exponent = format(Decimal(digits), "e").partition("e")
    if digits.endswith(".0"):
        digits = digits[:-2]
    return _Number(f"{digits}e{int(exponent):+d}")


def _quoted(text: str) -> str:
    return json.dumps(_SURROGATE.sub("\ufffd", text), ensure_ascii=False)


def _written(value: Any, depth: int) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (dict, list)) and depth >= _MOST_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, dict):
        keys = {_SURROGATE.sub("\ufffd", key): v for key, v in value.items()}
        return "{" + ",".join(_quoted(k) + ":" + _written(keys[k], depth + 1) for k in sorted(keys, key=lambda k: k.encode("utf-16-be"))) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_written(v, depth + 1) for v in value) + "]"
    return "null" if value is None else "true" if value else "false"


# What of a content is not hashed: what differs between two answers that say the same.

_WORD = rb"0-9A-Za-z_\x80-\xff"
_BEGIN = re.compile(rb"(?<![" + _WORD + rb"])(?:[0-9ACMRSTXacmrstx]|[0-9A-Fa-f]{8}-|[A-Za-z]{1,3}[-_]|[A-Za-z]{8}[-_])")
_UUID = re.compile(rb"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![" + _WORD + rb"])")
_PREFIX = re.compile(rb"(?:call_|toolu_|req_|req-|msg_|resp_|chatcmpl-|run_|run-|trace_|span_|adk-|aitxt-)([0-9A-Za-z_-]*)")
_NAME = re.compile(rb"[0-9A-Za-z_-]{5,24}")
_GAP = re.compile(rb"[\"':=\x20\\]{1,5}")
_ID = re.compile(rb"[0-9A-Za-z_-]{3,}")
_ID_NAMES = frozenset((b"requestid", b"traceid", b"spanid", b"correlationid", b"toolcallid", b"callid", b"responseid", b"runid"))
_TIME = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2}|[+-][0-9]{4})?")
_ADDRESS = re.compile(rb"0[xX][0-9A-Fa-f]{6,}")
_DIGITS = re.compile(rb"[0-9]+")
_FRACTION = re.compile(rb"\.([0-9]*)")
_UNIT = re.compile(rb"[A-Za-z\x80-\xff]{1,12}")
_BELOW_SECOND = frozenset(t.encode() for t in ("ns", "us", "\u00b5s", "\u03bcs", "ms", "msec", "millis", "milliseconds", "microseconds", "nanoseconds"))
_SECOND = frozenset((b"s", b"sec", b"secs", b"second", b"seconds"))
_ABOVE_SECOND = frozenset((b"m", b"min", b"mins", b"minute", b"minutes", b"h", b"hr", b"hrs", b"hour", b"hours", b"d", b"day", b"days"))


def _folded(text: bytes) -> bytes:
    out, copied, at = [], 0, 0
    while True:
        found = _BEGIN.search(text, at)
        if found is None:
            break
        at = found.start()
        end, word = _volatile(text, at)
        while end:
            out += [text[copied:at], word]
            copied = at = end
            end, word = _volatile(text, at) if _in_word(text, at) else (0, b"")  # a word may begin right behind
        at = max(at, found.start() + 1)
    return b"".join(out) + text[copied:] if out else text


def _in_word(text: bytes, at: int) -> bool:
    c = text[at : at + 1]
    return c.isalnum() or c == b"_" or c >= b"\x80"


def _ends(text: bytes, found: "Optional[re.Match[bytes]]") -> int:
    return found.end() if found is not None and not _in_word(text, found.end()) else 0


def _volatile(text: bytes, at: int) -> Tuple[int, bytes]:
    """Where the volatile part that begins here ends, and what to write for it; 0 for none."""
    uuid = _UUID.match(text, at)
    if uuid is not None:
        return uuid.end(), b"<id>"
    if not text[at : at + 1].isdigit():
        return _labelled(text, at), b"<id>"
    digits = _DIGITS.match(text, at)
    assert digits is not None
    end, n = digits.end(), digits.end() - at
    c = text[end : end + 1]
    if n < 10 and c != b".":
        if c == b"-":
            plain = n != 4
        elif c == b" ":
            plain = not _in_word(text, end + 1)
        else:
            plain = not _in_word(text, end)
        if plain:
            return 0, b""
    stop = _ends(text, _TIME.match(text, at))
    if stop:
        return stop, b"<time>"
    stop = _ends(text, _ADDRESS.match(text, at))
    if stop:
        return stop, b"<address>"
    stop = _duration(text, at)
    if stop:
        return stop, b"<duration>"
    return _epoch(text, at, end, n), b"<time>"


def _labelled(text: bytes, at: int) -> int:
    prefixed = _PREFIX.match(text, at)
    if prefixed is not None and len(prefixed.group(1)) >= 8 and _DIGITS.search(prefixed.group(1)):
        return prefixed.end()
    name = _NAME.match(text, at)
    if name is None:
        return 0
    plain = name.group().lower().replace(b"_", b"").replace(b"-", b"")
    if (plain[1:] if plain.startswith(b"x") else plain) not in _ID_NAMES:
        return 0
    gap = _GAP.match(text, name.end())
    if gap is None or not (b":" in gap.group() or b"=" in gap.group()):
        return 0
    value = _ID.match(text, gap.end())
    return value.end() if value is not None else 0


def _duration(text: bytes, at: int) -> int:
    """A number and a unit of time, again and again, of which the last is below the second, or is
    the second and has a fraction: such a duration was measured."""
    begin = at
    while True:
        digits = _DIGITS.match(text, at)
        if digits is None or digits.end() - at > 12:
            return 0
        end, fraction = digits.end(), 0
        behind = _FRACTION.match(text, end)
        if behind is not None:
            fraction, end = len(behind.group(1)), behind.end()
        if at == begin and text[end : end + 1] == b" ":
            end += 1
        unit = _UNIT.match(text, end)
        if unit is None or unit.group() not in _BELOW_SECOND and unit.group() not in _SECOND and unit.group() not in _ABOVE_SECOND:
            return 0
        at = unit.end()
        if _in_word(text, at):
            continue
        return at if unit.group() in _BELOW_SECOND or unit.group() in _SECOND and fraction > 0 else 0


def _epoch(text: bytes, at: int, end: int, n: int) -> int:
    """A Unix time of the years 2014 to 2039."""
    if n not in (10, 13, 16, 19) or text[at - 1 : at] == b"." and at > 0 or not b"14" <= text[at : at + 2] <= b"21":
        return 0
    if n == 10:
        behind = _FRACTION.match(text, end)
        if behind is not None and behind.group(1):
            end = behind.end()
    return 0 if _in_word(text, end) else end


# How near two texts are.

_ASCII_WORDS = re.compile("[0-9a-z]+")
_SPREAD = [sum((b >> i & 1) << 16 * i for i in range(8)) for b in range(256)]


def simhash(content: Any) -> str:
    """The fingerprint of a text, by which nearly the same texts are known: a simhash over its
    words and pairs of words. "" for a text without words."""
    words = _words(text_of(content))
    if not words:
        return ""
    features = [w.encode() for w in words] + [f"{a} {b}".encode() for a, b in zip(words, words[1:])]
    votes = [0] * 8  # 16 bits for each of eight bits of the hash
    for feature in features:
        h = _digest(feature)
        for k in range(8):
            votes[k] += _SPREAD[h >> 8 * k & 255]
    half, value = len(features) // 2, 0
    for bit in range(64):
        if votes[bit >> 3] >> 16 * (bit & 7) & 0xFFFF > half:
            value |= 1 << bit
    return f"simhash64:{value:016x}"


_MOST_COMMAND = 256
_COMMAND = re.compile(rb'"(?:command|cmd)"[\t\n\f\r ]*:[\t\n\f\r ]*"((?:[^"\\]|\\.)*)"')
_COMMAND_FORM = re.compile(
    rb"[\t\n\f\r ]*[12&]?>+[\t\n\f\r ]*(?:&[12]|/dev/null)|[\t\n\f\r ]*\|[\t\n\f\r ]*(?:head|tail|cat|less|more)\b[^|;&]*|([\t\n\f\r ])--?[A-Za-z][A-Za-z-]*\b"
)
_PIECE = re.compile(rb"([0-9A-Za-z\x80-\xff]+)|('[^']*'|\\\".*?\\\")|[^0-9A-Za-z\x80-\xff]", re.DOTALL)
_DIGIT = re.compile(rb"[0-9]")


def _sim_args(text: bytes) -> str:
    if len(text) <= 2 * _MOST_COMMAND:
        found = _COMMAND.search(text)
        if found is not None and len(found.group(1)) <= _MOST_COMMAND and b"\\n" not in found.group(1):
            text = _COMMAND_FORM.sub(rb"\1", found.group(1))
    words, literals = bytearray(), bytearray()
    at = 0
    while at < len(text):
        m = _PIECE.match(text, at)
        assert m is not None  # any byte is one of the three
        at = m.end()
        if m.group(2) is not None or m.group(1) is not None and _DIGIT.search(m.group(1)):
            literals += m.group() + b" "
        else:
            words += m.group()
        if m.group(1) is not None and at < len(text):  # a quote behind a letter is an apostrophe
            words.append(text[at])
            at += 1
    sim = simhash(bytes(words))
    if not literals:
        return sim
    value = int(sim[len("simhash64:") :], 16) if sim else 0
    return f"simhash64:{value ^ _digest(bytes(literals)):016x}"


def _words(text: str) -> List[str]:
    if text.isascii():
        found: List[str] = []
        for m in _ASCII_WORDS.finditer(text.lower()):
            found.append(m.group())
            if len(found) == _MOST_WORDS:
                break
        return found
    words: List[str] = []
    word: List[str] = []
    for c in text + " ":
        if "0" <= c <= "9" or "a" <= c <= "z":
            word.append(c)
        elif "A" <= c <= "Z":
            word.append(c.lower())
        elif c >= "\x80" and not _is_sign(c) and unicodedata.category(c)[0] in "LNM":
            word.append(c.lower()[0])
        elif word:
            words.append("".join(word))
            word = []
            if len(words) == _MOST_WORDS:
                break
    return words


def _is_sign(c: str) -> bool:
    return "\u2010" <= c < "\u2070" or "\u2190" <= c < "\u2460" or "\u2500" <= c < "\u2768"
