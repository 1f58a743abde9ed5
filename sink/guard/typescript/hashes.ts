/** The hashes by which weir compares arguments, messages and results without keeping them. They
 * are those of weir's own adapters: HASHES.md has the recipe, hashes.json the test vectors. */

// Engines compile arithmetic inside asUintN to that of 64 bits; a mask would make numbers of any size.
const u64 = (x: bigint) => BigInt.asUintN(64, x);
const [p1, p2, p3, p4, p5] = [11400714785074694791n, 14029467366897019727n, 1609587929392839161n, 9650029242287828579n, 2870177450012600261n];

function rotated(x: bigint, by: bigint): bigint {
  return u64(x << by) | (x >> (64n - by));
}

function round(acc: bigint, lane: bigint): bigint {
  return u64(rotated(u64(acc + u64(lane * p2)), 31n) * p1);
}

/** xxHash64 with seed 0. */
function xxh64(data: Uint8Array): bigint {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const n = data.length;
  let at = 0;
  let h = p5;
  if (n >= 32) {
    let [a, b, c, d] = [u64(p1 + p2), p2, 0n, u64(-p1)];
    for (; at + 32 <= n; at += 32) {
      a = round(a, view.getBigUint64(at, true));
      b = round(b, view.getBigUint64(at + 8, true));
      c = round(c, view.getBigUint64(at + 16, true));
      d = round(d, view.getBigUint64(at + 24, true));
    }
    h = u64(rotated(a, 1n) + rotated(b, 7n) + rotated(c, 12n) + rotated(d, 18n));
    for (const lane of [a, b, c, d]) h = u64((h ^ round(0n, lane)) * p1 + p4);
  }
  h = u64(h + BigInt(n));
  for (; at + 8 <= n; at += 8) h = u64(rotated(h ^ round(0n, view.getBigUint64(at, true)), 27n) * p1 + p4);
  if (at + 4 <= n) {
    h = u64(rotated(h ^ u64(BigInt(view.getUint32(at, true)) * p1), 23n) * p2 + p3);
    at += 4;
  }
  for (; at < n; at++) h = u64(rotated(h ^ u64(BigInt(data[at]!) * p5), 11n) * p1);
  h = u64((h ^ (h >> 33n)) * p2);
  h = u64((h ^ (h >> 29n)) * p3);
  return h ^ (h >> 32n);
}

const hex = (h: bigint) => h.toString(16).padStart(16, "0");
const utf8 = new TextEncoder();

// White space as weir trims it.
const space = "[\\t\\n\\v\\f\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
const around = new RegExp(`^${space}([^]*?)${space}$`);
const trimmed = (text: string) => around.exec(text)?.[1] ?? text;
const whole = (text: string) => text.replace(/\p{Surrogate}/gu, "\ufffd");
const mostDepth = 256;
const mostWords = 1500;

/** What is hashed of a value: a text as it is, bytes as UTF-8, anything else as JSON. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return whole(value);
  if (value instanceof Uint8Array) return new TextDecoder().decode(value);
  try {
    return whole(JSON.stringify(value, (_, v: unknown) => (typeof v === "bigint" ? v.toString() : v)) ?? String(value));
  } catch {
    return whole(String(value));
  }
}

/** The hash of the arguments of a call: JSON as the model wrote it, or the values themselves.
 * Neither the order of keys nor white space nor the spelling of a number makes a difference. "" for
 * none. */
export function hashArgs(args: unknown): string {
  const text = trimmed(textOf(args));
  return text ? "xxh64:" + hex(xxh64(utf8.encode(canonical(text)))) : "";
}

/** The fingerprint of the arguments of a call, by which the same call in other words is known.
 * Another literal (a word with a digit, or text in quotes inside a string) makes another fingerprint.
 * "" for arguments without words. */
export function simArgs(args: unknown): string {
  return argsFields(args).argsSim;
}

/** Hash and fingerprint of the arguments of a call; the canonical form is written once. */
export function argsFields(args: unknown): { argsHash: string; argsSim: string } {
  const text = trimmed(textOf(args));
  if (!text) return { argsHash: "", argsSim: "" };
  const written = canonical(text);
  return { argsHash: "xxh64:" + hex(xxh64(utf8.encode(written))), argsSim: simOfArgs(written) };
}

/** The hash of a message, an answer or a result. Ids of requests, UUIDs, timestamps, addresses and
 * measured durations in it make no difference. "" for none. */
export function hashContent(content: unknown): string {
  const text = trimmed(textOf(content));
  return text ? "xxh64:" + hex(xxh64(utf8.encode(folded(text)))) : "";
}

/** The canonical form (RFC 8785) of JSON. What is no JSON is taken for a string; a string that holds
 * an object or a list for what it holds. */
export function canonical(text: string): string {
  const written = new Reader(text).document();
  if (written === undefined) return quoted(text);
  if (!written.startsWith('"')) return written;
  const said = JSON.parse(written) as string;
  const held = trimmed(said);
  return (/^[{[]/.test(held) ? new Reader(held).document() : undefined) ?? quoted(said);
}

const quoted = (text: string) => JSON.stringify(whole(text));

/** Writes one JSON text in canonical form. JSON.parse would lose how numbers are spelled. */
class Reader {
  private at = 0;
  private depth = 0;
  constructor(private readonly text: string) {}

  /** Undefined for what is not one value of JSON and nothing else. */
  document(): string | undefined {
    try {
      const value = this.value();
      return this.peek() === "" ? value : undefined;
    } catch {
      return undefined;
    }
  }

  private peek(): string {
    while (/[ \t\n\r]/.test(this.text[this.at] ?? "")) this.at++;
    return this.text[this.at] ?? "";
  }

  private take(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (!found) throw new Error("this is no JSON");
    this.at += found.length;
    return found;
  }

  private string(): string {
    return whole(JSON.parse(this.take(/"(?:[^"\\\0-\x1f]|\\.)*"/y)) as string);
  }

  private value(): string {
    const c = this.peek();
    if (c === '"') return quoted(this.string());
    if (c !== "{" && c !== "[") return /[-0-9]/.test(c) ? number(this.take(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y)) : this.take(/true|false|null/y);
    if (++this.depth > mostDepth) throw new Error("too deep");
    this.at++;
    const end = c === "{" ? "}" : "]";
    const members = new Map<string, string>();
    const items: string[] = [];
    for (let first = true; this.peek() !== end; first = false) {
      if (!first) this.take(/,/y);
      this.peek();
      if (c === "[") {
        items.push(this.value());
        continue;
      }
      const key = this.string();
      this.peek();
      this.take(/:/y);
      members.set(key, this.value());
    }
    this.at++;
    this.depth--;
    if (c === "[") return "[" + items.join(",") + "]";
    // sort compares UTF-16 code units, as RFC 8785 wants it
    return "{" + [...members.keys()].sort().map((key) => quoted(key) + ":" + members.get(key)).join(",") + "}";
  }
}

function number(text: string): string {
  const f = Number(text);
  return Number.isFinite(f) ? String(f === 0 ? 0 : f) : text; // beyond the range two readers would differ
}

// What of a content is not hashed: what differs between two answers that say the same.

const word = "0-9A-Za-z_\\u0080-\\uffff";
const begin = new RegExp(`(?<![${word}])(?:[0-9ACMRSTXacmrstx]|[0-9A-Fa-f]{8}-|[A-Za-z]{1,3}[-_]|[A-Za-z]{8}[-_])`, "g");
const uuid = new RegExp(`[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![${word}])`, "y");
const prefix = /(?:call_|toolu_|req_|req-|msg_|resp_|chatcmpl-|run_|run-|trace_|span_|adk-|aitxt-)([0-9A-Za-z_-]*)/y;
const named = /[0-9A-Za-z_-]{5,24}/y;
const gap = /["':= \\]{1,5}/y;
const id = /[0-9A-Za-z_-]{3,}/y;
const idNames = new Set(["requestid", "traceid", "spanid", "correlationid", "toolcallid", "callid", "responseid", "runid"]);
const time = /[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2}|[+-][0-9]{4})?/y;
const address = /0[xX][0-9A-Fa-f]{6,}/y;
const digits = /[0-9]+/y;
const fractional = /\.([0-9]*)/y;
const letters = /[A-Za-z\u0080-\uffff]+/y;
const below = new Set(["ns", "us", "\u00b5s", "\u03bcs", "ms", "msec", "millis", "milliseconds", "microseconds", "nanoseconds"]);
const second = new Set(["s", "sec", "secs", "second", "seconds"]);
const above = new Set(["m", "min", "mins", "minute", "minutes", "h", "hr", "hrs", "hour", "hours", "d", "day", "days"]);

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

function inWord(text: string, at: number): boolean {
  const c = text.charCodeAt(at);
  return c >= 0x80 || (c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c === 95;
}

function folded(text: string): string {
  let out = "";
  let copied = 0;
  for (let at = 0; ; ) {
    begin.lastIndex = at;
    const found = begin.exec(text);
    if (!found) return out + text.slice(copied);
    at = found.index;
    let [end, name] = volatile(text, at);
    while (end) {
      out += text.slice(copied, at) + name;
      copied = at = end;
      [end, name] = inWord(text, at) ? volatile(text, at) : [0, ""]; // a word may begin right behind
    }
    at = Math.max(at, found.index + 1);
  }
}

/** Where the volatile part that begins here ends, and what to write for it; 0 for none. */
function volatile(text: string, at: number): [number, string] {
  const ends = (pattern: RegExp) => {
    const end = at + (match(pattern, text, at)?.[0].length ?? 0);
    return end > at && !inWord(text, end) ? end : 0;
  };
  const isUuid = match(uuid, text, at);
  if (isUuid) return [at + isUuid[0].length, "<id>"];
  const n = match(digits, text, at)?.[0].length ?? 0;
  if (n === 0) return [labelled(text, at), "<id>"];
  const c = text[at + n] ?? "";
  if (n < 10 && c !== ".") {
    const plain = c === "-" ? n !== 4 : c === " " ? !inWord(text, at + n + 1) : !inWord(text, at + n);
    if (plain) return [0, ""];
  }
  let end = ends(time);
  if (end) return [end, "<time>"];
  end = ends(address);
  if (end) return [end, "<address>"];
  end = duration(text, at);
  if (end) return [end, "<duration>"];
  return [epoch(text, at, n), "<time>"];
}

function labelled(text: string, at: number): number {
  const prefixed = match(prefix, text, at);
  if (prefixed && prefixed[1]!.length >= 8 && /[0-9]/.test(prefixed[1]!)) return at + prefixed[0].length;
  const name = match(named, text, at)?.[0];
  if (!name || !idNames.has(name.toLowerCase().replace(/[-_]/g, "").replace(/^x/, ""))) return 0;
  const between = match(gap, text, at + name.length)?.[0] ?? "";
  if (!/[:=]/.test(between)) return 0;
  const from = at + name.length + between.length;
  const value = match(id, text, from);
  return value ? from + value[0].length : 0;
}

/** A number and a unit of time, again and again, of which the last is below the second, or is the
 * second and has a fraction: such a duration was measured. */
function duration(text: string, begun: number): number {
  for (let at = begun; ; ) {
    const n = match(digits, text, at)?.[0].length ?? 0;
    if (n === 0 || n > 12) return 0;
    let end = at + n;
    const behind = match(fractional, text, end);
    const fraction = behind ? behind[1]!.length : 0;
    if (behind) end += behind[0].length;
    if (at === begun && text[end] === " ") end++;
    const unit = match(letters, text, end)?.[0] ?? "";
    if (!below.has(unit) && !second.has(unit) && !above.has(unit)) return 0;
    at = end + unit.length;
    if (inWord(text, at)) continue;
    return below.has(unit) || (second.has(unit) && fraction > 0) ? at : 0;
  }
}

/** A Unix time of the years 2014 to 2039. */
function epoch(text: string, at: number, n: number): number {
  const lead = text.slice(at, at + 2);
  if (![10, 13, 16, 19].includes(n) || text[at - 1] === "." || lead < "14" || lead > "21") return 0;
  let end = at + n;
  const behind = n === 10 ? match(fractional, text, end) : undefined;
  if (behind?.[1]) end += behind[0].length;
  return inWord(text, end) ? 0 : end;
}

/** The fingerprint of a text, by which nearly the same texts are known: a simhash over its words and
 * pairs of words. "" for a text without words. */
export function simhash(content: unknown): string {
  const words = wordsOf(textOf(content));
  if (words.length === 0) return "";
  const features = words.concat(words.slice(1).map((w, i) => words[i] + " " + w));
  const votes = new Uint16Array(64);
  for (const feature of features) {
    const h = xxh64(utf8.encode(feature));
    const [low, high] = [Number(h & 0xffffffffn), Number(h >> 32n)];
    for (let bit = 0; bit < 32; bit++) {
      votes[bit]! += (low >>> bit) & 1;
      votes[bit + 32]! += (high >>> bit) & 1;
    }
  }
  const half = features.length >> 1;
  let value = 0n;
  votes.forEach((n, bit) => {
    if (n > half) value |= 1n << BigInt(bit);
  });
  return "simhash64:" + hex(value);
}

const mostCommand = 256; // bytes
const command = /"(?:command|cmd)"[\t\n\f\r ]*:[\t\n\f\r ]*"((?:[^"\\]|\\.)*)"/;
const commandForm =
  /[\t\n\f\r ]*[12&]?>+[\t\n\f\r ]*(?:&[12]|\/dev\/null)|[\t\n\f\r ]*\|[\t\n\f\r ]*(?:head|tail|cat|less|more)\b[^|;&]*|([\t\n\f\r ])--?[A-Za-z][A-Za-z-]*\b/g;
const piece = /([0-9A-Za-z\u0080-\uffff]+)|('[^']*'|\\"[^]*?\\")|[^0-9A-Za-z\u0080-\uffff'\\]+|[^]/y;

function simOfArgs(text: string): string {
  if (utf8.encode(text).length <= 2 * mostCommand) {
    const shell = command.exec(text)?.[1];
    if (shell !== undefined && utf8.encode(shell).length <= mostCommand && !shell.includes("\\n")) text = shell.replace(commandForm, "$1");
  }
  let [words, literals] = ["", ""];
  for (let at = 0; at < text.length; ) {
    piece.lastIndex = at;
    const [found, word, quote] = piece.exec(text)!; // any character is one of the three
    at += found.length;
    if (quote !== undefined || (word !== undefined && /[0-9]/.test(word))) literals += found + " ";
    else words += found;
    if (word !== undefined && at < text.length) words += text[at++]; // a quote behind a letter is an apostrophe
  }
  const sim = simhash(words);
  if (!literals) return sim;
  return "simhash64:" + hex((sim ? BigInt("0x" + sim.slice("simhash64:".length)) : 0n) ^ xxh64(utf8.encode(literals)));
}

function wordsOf(text: string): string[] {
  const words: string[] = [];
  // Dashes and quotes, arrows, boxes and emblems are none.
  for (const [run] of text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
    for (const word of run.split(/[\u2010-\u206f\u2190-\u245f\u2500-\u2767]+/)) {
      if (!word) continue;
      words.push(Array.from(word, (c) => Array.from(c.toLowerCase())[0]).join(""));
      if (words.length === mostWords) return words;
    }
  }
  return words;
}
