"""Checks calls with the Python guard by many threads for trial answers, which reads what it prints.
answers_lane.go says what each answer has to be."""

import json
import math
import random
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import weir_guard  # noqa: E402

o = json.loads(sys.argv[2])
lock = threading.Lock()
said = {"asked": 0, "answered": 0, "refused": 0, "wrong": 0, "doubled": 0, "peak": 0, "first": [], "silent": [], "took": {}, "orders": {}}
under = 0
flows = open(o["flows"], "a")


def wrong(text):
    said["wrong"] += 1
    if len(said["first"]) < 12:
        said["first"].append(text)


class Lane:
    def __init__(self, n):
        self.name, self.random, self.serial = "py-b-%d" % n, random.Random("%d/%d" % (o["seed"], n)), 0
        self.made = self.calls = 0

    def call(self):
        if self.made == self.calls:
            self.next()
        a, b = "a-" + self.flow, "b-" + self.flow
        if self.kind == "loop" and self.made % 2:
            a, b = b, a
        self.made += 1
        return self.flow, a, b

    def next(self):
        self.end()
        self.serial += 1
        self.allowed = self.refused = self.missing = self.row = 0
        self.left, self.over = o["most"], False
        self.kind, self.flow, self.most = "work", "%s-%d" % (self.name, self.serial), o["most"]
        r = self.random.randrange(32)
        if r < 4:
            self.kind, self.flow, self.calls = "stopped", "stopped-%d" % self.random.randrange(o["stopped"]), 1 + self.random.randrange(6)
        elif r < 6:
            self.kind, self.most, self.calls = "loop", o["loops"], o["loops"] + 3
        elif r < 7:
            self.calls = o["most"] + 3
        else:
            self.calls = 1 + self.random.randrange(o["most"])

    def end(self):
        if self.made:
            with lock:
                flows.write("%s %d %d %d\n" % (self.flow, self.allowed, self.refused, self.missing))
        self.made = self.calls = 0

    def take(self, d, begun):
        global under
        now, of_weir = time.time(), d.source == "weir"
        with lock:
            under -= 1
            if of_weir:
                said["answered"] += 1
                bucket = int(40 * math.log10(max(1, (now - begun) * 1e6)))
                said["took"][bucket] = said["took"].get(bucket, 0) + 1
            else:
                said["silent"].append([begun, now])
            if self.kind == "stopped" and not d.stopped:
                wrong("%s is stopped, and allowed by %s" % (self.flow, d.source))
            elif self.kind != "stopped" and d.stopped and self.allowed + self.missing < self.most:
                wrong("%s: refused after %d of %d calls by %s" % (self.flow, self.allowed + self.missing, self.most, d.source))
            elif of_weir and d.stopped:
                order = d.verdict_id[:16] if d.verdict_id[16:17] == "-" else ""
                if not order or said["orders"].setdefault(order, self.flow) != self.flow:
                    wrong("%s: refused by order %r of %s" % (self.flow, order, said["orders"].get(order)))
            elif of_weir:
                self.remaining(d)
            if not of_weir:
                self.missing += 1
                self.row = 0 if self.kind == "loop" else self.row
            elif d.stopped:
                self.refused += 1
                self.over = True
                said["refused"] += 1
            else:
                self.allowed += 1
                self.row += 1

    def remaining(self, d):
        left = next((r.left for r in d.remaining if r.rule == "max_total_calls"), -1)
        if self.over or self.row >= self.most:
            wrong("%s: allowed after %d of %d calls, or after it was refused" % (self.flow, self.row, self.most))
        if not o["most"] - 1 - self.allowed - self.missing <= left <= self.left - 1:
            wrong("%s: %s calls are left after %s, %d allowed and %d without an answer" % (self.flow, left, self.left, self.allowed, self.missing))
        self.left = left


guard = weir_guard.Guard(o["url"], quiet=True, ask_timeout=o["timeout"])
began = time.time()


def work(n):
    global under
    lane = Lane(n)
    while True:
        at = began + (int((time.time() - began) / o["every"]) + 1) * o["every"]
        if at > o["until"]:
            break
        time.sleep(max(0, at - time.time()))
        flow, a, b = lane.call()
        with lock:
            said["asked"] += 1
            under += 1
            said["peak"] = max(said["peak"], under)
        begun = time.time()
        lane.take(guard.ask(flow, a, b, had_work=lane.kind != "loop", tell=True), begun)
    lane.end()


workers = [threading.Thread(target=work, args=(n,)) for n in range(o["lanes"])]
for w in workers:
    w.start()
for w in workers:
    w.join()
guard.close()
flows.close()
print(json.dumps(said))
