// A table of many rows, of which only those are in the document that can be seen.
import { el, number, plain, say, button } from "./dom.js";

const rowHeight = 34;

// sheet shows things that have an id. A column has a key and a head; what it sorts by is
// value, else the field of that key; cell makes what is shown of it. path is where a row
// leads, state the word that is spoken of it, and reorder is called with the key of the
// column that is to be sorted by.
export function sheet({ label, columns, id, path, state, reorder, main, signal, go, about }) {
  let shown = [], selected, first = -1, drawn = new Map();
  const heads = columns.map((c) => el("th", { scope: "col", class: c.number ? "number" : undefined }, button(c.head, () => reorder(c.key))));
  const above = el("tr", { class: "room" }), below = el("tr", { class: "room" });
  const body = el("tbody", {});
  const table = el("table", { class: `flows ${label.toLowerCase()}`, "aria-describedby": about }, el("caption", { class: "unseen" }, label), el("thead", {}, el("tr", {}, heads)), body);
  const node = el("div", { class: `scroller of-${label.toLowerCase()}`, tabindex: 0, role: "region", "aria-label": label }, table);

  // show takes other things, sorted by a column. Rows never move under the pointer, nor
  // while somebody is among them, unless they are wanted anew.
  function show(things, { sort, up, anew }) {
    heads.forEach((th, i) => (columns[i].key === sort ? th.setAttribute("aria-sort", up ? "ascending" : "descending") : th.removeAttribute("aria-sort")));
    const column = columns.find((c) => c.key === sort) ?? columns[0];
    const value = column.value ?? ((x) => x[column.key] ?? 0);
    const sign = up ? 1 : -1;
    things.sort((a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : id(a) < id(b) ? -1 : 1));
    if (!anew && (node.matches(":hover") || node.contains(document.activeElement))) {
      const place = new Map(shown.map((x, i) => [id(x), i]));
      things = [...things.filter((x) => place.has(id(x))).sort((a, b) => place.get(id(a)) - place.get(id(b))), ...things.filter((x) => !place.has(id(x)))];
    }
    shown = things;
    table.setAttribute("aria-rowcount", shown.length + 1);
    draw(true);
  }

  // draw puts the rows into the document that can be seen.
  function draw(changed) {
    const visible = Math.ceil(node.clientHeight / rowHeight) + 8;
    const from = Math.max(0, Math.min(Math.floor(node.scrollTop / rowHeight) - 4, shown.length - visible));
    if (from === first && !changed) return;
    first = from;
    const rows = [], next = new Map();
    shown.slice(from, from + visible).forEach((x, i) => {
      let row = drawn.get(id(x));
      if (!row || row.of !== x) {
        row = { of: x, node: el("tr", {}, columns.map((c) => el("td", { class: c.number ? "number" : undefined }, c.cell ? c.cell(x) : number(x[c.key])))) };
        row.node.addEventListener("click", (e) => e.target.closest("a") || go(path(x)));
      }
      row.node.setAttribute("aria-rowindex", from + i + 2);
      row.node.classList.toggle("selected", id(x) === selected);
      next.set(id(x), row);
      rows.push(row.node);
    });
    drawn = next;
    above.style.height = `${from * rowHeight}px`;
    below.style.height = `${Math.max(0, shown.length - from - rows.length) * rowHeight}px`;
    body.replaceChildren(above, ...rows, below);
  }

  function move(by) {
    if (!shown.length) return;
    const at = shown.findIndex((x) => id(x) === selected);
    const to = Math.max(0, Math.min(shown.length - 1, at < 0 ? 0 : at + by));
    selected = id(shown[to]);
    const top = to * rowHeight;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + 3 * rowHeight > node.scrollTop + node.clientHeight) node.scrollTop = top + 3 * rowHeight - node.clientHeight;
    node.focus({ preventScroll: true });
    draw(true);
    say(`${plain(selected)}, ${state(shown[to])}, row ${to + 1} of ${shown.length}`);
  }
  main.addEventListener("move", (e) => move(e.detail), { signal });
  node.addEventListener("keydown", (e) => {
    const chosen = shown.find((x) => id(x) === selected);
    if (e.key === "Enter" && chosen && e.target === node) go(path(chosen));
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      move(e.key === "ArrowDown" ? 1 : -1);
    }
  });
  node.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
  addEventListener("resize", () => draw(true), { signal });
  return { node, show };
}
