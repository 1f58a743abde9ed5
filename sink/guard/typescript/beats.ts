/** What a guard says of itself to weir: which calls were in flight when orders by hand came, and what
 * became of them. */

/** A call that was begun, as far as flights look at it. */
export interface Flying<V> {
  readonly cancelled: boolean;
  /** Names the call and says whether it was cancelled. */
  named(): object;
  /** Calls the call off, because of an order. */
  callOff(v: V): void;
}

interface Flight<V> {
  calls: number;
  ended: number;
  cancelled: number;
  open: Set<Flying<V>>;
}

const most = 1 << 16; // calls that are watched
const mostOpen = 20; // calls that a heartbeat names

/** Milliseconds between heartbeats where weir does not answer when the next one is due, as an older one:
 * while the guard holds an order by hand, while it holds none, and where weir knows no heartbeats. */
export const beatEvery = 2000;
export const beatIdle = 20_000;
export const beatAgain = 60_000;

/** Bounds of the time that weir may set. A heartbeat without an answer is sent again after the least. */
export const leastBeat = 250;
const mostBeat = 60_000;

/** How long the answer to a heartbeat may take. */
export const beatTimeout = 1000;

/** Reads the answer to a heartbeat: the milliseconds until the next one, if it sets a time within bounds. */
export function nextBeat(answer: string): number | undefined {
  try {
    const ms: unknown = JSON.parse(answer)?.next_ms;
    return typeof ms === "number" && Number.isInteger(ms) && ms >= leastBeat && ms <= mostBeat ? ms : undefined;
  } catch {
    return undefined;
  }
}

export class Flights<V extends { id: string; action: string }> {
  private readonly open = new Set<Flying<V>>();
  private readonly orders = new Map<string, Flight<V>>();
  /** Has a heartbeat sent now. */
  kick: () => void = () => {};

  begin(b: Flying<V>): void {
    if (this.open.size < most) this.open.add(b); // a program that never ends its calls
  }

  end(b: Flying<V>): void {
    this.open.delete(b);
    for (const flight of this.orders.values()) {
      if (!flight.open.delete(b)) continue;
      flight.ended++;
      if (b.cancelled) flight.cancelled++;
      this.kick();
    }
  }

  /** Notes an order by hand that is enforced from now on, or that was released. It calls off the calls
   * that the order binds, as far as they can be. */
  byHand(v: V, binds: (b: Flying<V>) => boolean): void {
    const order = v.id.split("-")[0];
    for (const id of [...this.orders.keys()]) {
      if (id.split("-")[0] !== order) continue;
      if (id === v.id && v.action !== "allow") return; // heard again
      this.orders.delete(id);
    }
    if (v.action !== "allow") {
      const stopped = [...this.open].filter(binds);
      this.orders.set(v.id, { calls: stopped.length, ended: 0, cancelled: 0, open: new Set(stopped) });
      for (const b of stopped) b.callOff(v);
    }
    this.kick();
  }

  /** The part of a heartbeat about calls. */
  told(): object {
    let room = mostOpen;
    const flights = [...this.orders].map(([verdict, flight]) => {
      const { calls, ended, cancelled } = flight;
      const open = [...flight.open].slice(0, room).map((b) => b.named());
      room -= open.length;
      return { verdict, calls, ended, cancelled, open };
    });
    return { in_flight: this.open.size, flights };
  }
}
