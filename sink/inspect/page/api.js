// Sends requests to weir. The browser shows the cookie of the session with each of them.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const answer = await fetch(path, options);
  if (answer.status === 401) document.dispatchEvent(new Event("tokenwanted"));
  return granted(answer);
}

const sent = (body) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// session is what this browser may do; the reasons in it are empty for what it may do. It keeps
// its last value while weir is unreachable.
export let session = {};

const changed = (next) => {
  session = next;
  document.dispatchEvent(new Event("session"));
};
export const whoami = async () => changed(await (await granted(await fetch("/v1/inspect/session"))).json());
export const signIn = async (token) => changed(await (await granted(await fetch("/v1/inspect/signin", sent({ token })))).json());
export const signOut = async () => changed(await (await granted(await fetch("/v1/inspect/signout", sent({})))).json());

// granted returns an answer, or throws why there is none.
async function granted(answer) {
  if (answer.ok) return answer;
  let detail = answer.statusText;
  try {
    detail = (await answer.json()).detail;
  } catch {
    // not everything between us and weir answers as weir does
  }
  throw new Refused(answer.status, detail);
}

// order gives an order of a person, which takes the role operate.
export const order = async (path, body, method = "POST") => {
  const answer = await fetch(path, { ...sent(body), method });
  if (answer.status === 401) whoami().catch(() => {});
  return (await granted(answer)).json();
};

export const query = (fields) => new URLSearchParams(Object.entries(fields).filter(([, v]) => v !== undefined && v !== "" && v !== false)).toString();

export const get = async (path, signal) => (await ask(path, { signal })).json();
export const text = async (path, signal) => (await ask(path, { signal })).text();
export const post = async (path, body, signal) =>
  (await ask(path, { ...sent(body), signal })).json();

// upload sends a form and reports which share of it was sent, which fetch does not.
export const upload = (path, form, share, signal) =>
  new Promise((resolve, reject) => {
    const ask = new XMLHttpRequest();
    ask.open("POST", path);
    ask.responseType = "json";
    ask.upload.onprogress = (e) => e.lengthComputable && share(e.loaded / e.total);
    ask.onload = () => {
      if (ask.status === 401) document.dispatchEvent(new Event("tokenwanted"));
      ask.status < 300 ? resolve(ask.response) : reject(new Refused(ask.status, ask.response?.detail ?? ask.statusText));
    };
    ask.onerror = () => reject(new Refused(0, "weir is unreachable, or a file changed while it was sent"));
    signal.addEventListener("abort", () => ask.abort());
    ask.send(form);
  });

// lines are the JSON values of an answer with one to a line.
export const lines = async (path, signal) => (await text(path, signal)).split("\n").filter(Boolean).map((l) => JSON.parse(l));

// follow calls verdict for each verdict until the signal aborts. It reads the event stream with
// fetch, because EventSource hides the status of an answer. While the page is hidden it follows
// nothing; afterwards it resumes where it stopped.
export async function follow(since, { verdict, state, signal }) {
  let last = "", wait = 500;
  while (!signal.aborted) {
    await visible(signal);
    const stop = new AbortController();
    const hide = () => document.hidden && stop.abort();
    const end = () => stop.abort();
    document.addEventListener("visibilitychange", hide);
    signal.addEventListener("abort", end);
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const answer = await ask(`/v1/verdicts?since=${since}`, { headers, signal: stop.signal });
      state("live");
      wait = 500;
      let rest = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const fields = Object.fromEntries(part.split("\n").filter((l) => !l.startsWith(":")).map((l) => l.split(/: ?(.*)/s).slice(0, 2)));
          if (fields.event || !fields.data) continue;
          last = fields.id;
          verdict(JSON.parse(fields.data));
        }
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 400) last = ""; // a new log
      if (error instanceof Refused && error.status === 401) throw error;
    } finally {
      document.removeEventListener("visibilitychange", hide);
      signal.removeEventListener("abort", end);
    }
    if (signal.aborted || document.hidden) continue;
    state("reconnecting");
    await new Promise((r) => setTimeout(r, wait * (0.5 + Math.random())));
    wait = Math.min(10_000, wait * 2);
  }
}

export function visible(signal) {
  if (!document.hidden || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

// every calls fn again and again: a second apart, or ten times as long as fn takes, so
// that a slow answer is not asked for without end, but at least every ten seconds.
export async function every(fn, signal) {
  while (!signal.aborted) {
    await visible(signal);
    const begun = performance.now();
    if (!signal.aborted) await fn();
    await new Promise((r) => setTimeout(r, Math.min(10_000, Math.max(1000, 10 * (performance.now() - begun)))));
  }
}
