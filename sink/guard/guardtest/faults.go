package guardtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Fault is one way in which the server at weir's address misbehaves: a weir that is
// broken, a proxy in between, or another program. A guard must neither end nor hang nor
// fill the memory of the program that it guards, and must decide what Want says.
type Fault struct {
	Name string
	Want Want

	// All other requests are answered as weir does, so what a test sees comes of this fault
	// alone.
	path  string           // of the requests that are answered wrongly
	serve http.HandlerFunc // answers the first of them
	then  http.HandlerFunc // answers the later ones; nil: they are never answered
	lasts bool             // it may go on for as long as the guard is there
}

// Want is what a guard decides about two calls in the end, each as action, source and
// "stale" where it says so. Weir has an order to deny the calls of flow f, and answers
// asks accordingly.
// The texts are those of Action and Source.
type Want struct {
	CheckStopped, CheckOther string // the call of flow f, and that of another flow
	AskStopped, AskOther     string
	Unreadable               int64 // messages that are counted so, at least
}

// What a guard decides when it hears weir, when it never did, when it does no more, and
// when it hears orders but no answers.
var (
	hears   = Want{CheckStopped: "deny table", CheckOther: "allow table", AskStopped: "deny weir", AskOther: "allow weir"}
	never   = Want{CheckStopped: "allow stale_open stale", CheckOther: "allow stale_open stale", AskStopped: "deny weir", AskOther: "allow weir"}
	noMore  = Want{CheckStopped: "deny table stale", CheckOther: "allow stale_open stale", AskStopped: "deny weir", AskOther: "allow weir"}
	unasked = Want{CheckStopped: "deny table", CheckOther: "allow table", AskStopped: "deny table", AskOther: "allow stale_open stale"}
	refuses = Want{CheckStopped: "deny table", CheckOther: "allow table", AskStopped: "deny weir", AskOther: "deny weir"} // every ask
)

// unreadable returns a copy with one unreadable message.
func (w Want) unreadable() Want {
	w.Unreadable = 1
	return w
}

// The paths that guards use.
const (
	// A guard that requested any other path would get the answer that nothing is there.
	pathVerdicts = "/v1/verdicts"
	pathLimits   = "/v1/limits"
	pathCheck    = "/v1/check"
	pathAsks     = "/v1/check/stream" // of the Go guard alone
	pathEvents   = "/v1/events"
)

// Flood is how many bytes a fault sends that has no end.
// It is far more than a guard has any reason to read, and little enough for a test.
const Flood = 192 << 20

// order is a verdict that stops a flow, with more fields or none.
// The id does not have the form of weir's ids with a revision, so scope and reason identify the order.
func order(flow, more string) string {
	return fmt.Sprintf(`{"id":"of-%s","revision":1,"mode":"enforce","action":"deny","reason_code":"self_call","correlation_id":%q,"scope":{"kind":"flow","id":%q}%s}`, flow, flow, flow, more)
}

const (
	alive = ": heartbeat\n\n"
	// refuse is an answer of weir that refuses a call, for answers that are nearly it.
	refuse = `{"instance":"urn:weir:verdict:a","reason_code":"self_call","action":"deny","detail":"no","agent_message":"n"}`
)

// Faults returns all of them, those that are known and that every guard can meet.
func Faults() []Fault {
	return slices.Concat(deadStreams(), badStreams(), strangeHeads(), strangeMessages(), wrongLimits(), badAnswers(), lostAcks())
}

// stopped is the order that a guard is to hear.
var stopped = "id: 0\ndata: " + order("f", "") + "\n\n"

// after lets the guard hear the order and a sign of life first.
func after(fn http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		begin(rw)
		say(rw, stopped+alive)
		fn(rw, r)
	}
}

// among sends a message before the order, which is heard all the same.
func among(text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		begin(rw)
		say(rw, text+stopped)
		beat(rw, r)
	}
}

// behind is a weir whose clock is so far behind the guard's, by which its order ends.
func behind(d time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		now := time.Now().Add(-d).UTC()
		rw.Header().Set("Date", now.Format(http.TimeFormat))
		begin(rw)
		say(rw, "id: 0\ndata: "+order("f", fmt.Sprintf(`,"expires_at":%q`, now.Add(15*time.Minute).Format(time.RFC3339)))+"\n\n")
		beat(rw, r)
	}
}

// data sends a message of that text before the order.
func data(text string) http.HandlerFunc { return among("id: 7\ndata: " + text + "\n\n") }

// stream is a fault of the stream of verdicts: the first answer is wrong, and then there is
// none.
func stream(name string, want Want, serve http.HandlerFunc) Fault {
	return Fault{Name: "stream " + name, Want: want, path: pathVerdicts, serve: serve}
}

// odd is a stream with a message that is no verdict. It counts as unreadable, and what follows
// it is heard.
func odd(name, text string) Fault { return stream(name, hears.unreadable(), data(text)).lasting() }

// limits is a fault of the limits, whatever number of times they are asked for. It must not
// change what a guard decides.
func limits(name string, serve http.HandlerFunc) Fault {
	return Fault{Name: "limits " + name, Want: hears, path: pathLimits, serve: serve}.lasting()
}

// check is a fault of every answer to an ask: orders are heard, and decide where they say
// something.
func check(name string, serve http.HandlerFunc) Fault {
	return Fault{Name: "check " + name, Want: unasked, path: pathCheck, serve: serve, then: serve}
}

// refusal is an answer that refuses every call, in whatever form.
func refusal(name string, serve http.HandlerFunc) Fault {
	return Fault{Name: "check is refused " + name, Want: refuses, path: pathCheck, serve: serve, then: serve}
}

// ack is a fault of what takes reports in. Reports are lost then, and no decision hangs on them.
func ack(name string, serve http.HandlerFunc) Fault {
	return Fault{Name: "events " + name, Want: hears, path: pathEvents, serve: serve, then: serve}
}

// deadStreams are nothing that could be followed.
// A guard that meets one never knew any order.
func deadStreams() []Fault {
	return []Fault{
		stream("is cut before it is answered", never, cut),
		// Never: checks still get the orders, since they use another path.
		stream("is never answered", never, hang),
		stream("is answered in another protocol", never, raw("SSH-2.0-OpenSSH_9.6\r\n")),
		stream("has a head that comes byte by byte", never, rawEvery("HTTP/1.1 200 OK\r\nX: ", "x")),
		stream("has a head without end", never, rawFlood("HTTP/1.1 200 OK\r\n", "X-More: "+strings.Repeat("x", 1000)+"\r\n")),
		stream("is refused", never, reply(http.StatusUnauthorized, "application/problem+json", `{"detail":"a token is needed"}`)),
		stream("fails, with 192 MiB of text", never, floodOf(http.StatusInternalServerError, "text/plain", "sorry ")),
		stream("is a page that somebody else shows", never, pageOf(": a line that looks like a sign of life\n\n")),
		stream("is somewhere else", never, elsewhere),
		stream("is moved to itself", never, func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, r.URL.Path, http.StatusFound) }),
		stream("ends at once", never, func(rw http.ResponseWriter, _ *http.Request) { begin(rw) }),
		stream("begins and says nothing", never, func(rw http.ResponseWriter, r *http.Request) { begin(rw); say(rw, ""); hang(rw, r) }),
		stream("says that it is behind, for ever", Want{"deny table stale", "allow stale_open stale", "deny weir", "allow weir", 0}, func(rw http.ResponseWriter, r *http.Request) {
			begin(rw)
			say(rw, stopped)
			every(rw, r, ": behind\n\n")
		}).lasting(),
		stream("is of a weir whose clock is three hours behind", hears, behind(3*time.Hour)).lasting(),
	}
}

// badStreams begin well.
// The order was heard, and stays in force.
func badStreams() []Fault {
	return []Fault{
		stream("falls silent", noMore, after(hang)),
		stream("ends", noMore, after(func(http.ResponseWriter, *http.Request) {})),
		stream("ends in the middle of an order", noMore, after(func(rw http.ResponseWriter, _ *http.Request) { say(rw, "data: "+order("h", "")[:40]) })),
		stream("has chunks that are none", noMore, rawChunks(stopped+alive)),
		stream("drips single bytes", noMore, after(func(rw http.ResponseWriter, r *http.Request) { every(rw, r, "x") })),
		stream("drips empty lines", noMore, after(func(rw http.ResponseWriter, r *http.Request) { every(rw, r, "\n") })),
		stream("drips a comment that does not end", noMore, after(func(rw http.ResponseWriter, r *http.Request) { say(rw, ": "); every(rw, r, "x") })),
		stream("drips fields that nobody knows", noMore, after(func(rw http.ResponseWriter, r *http.Request) { every(rw, r, "more: x\n") })),
		stream("has a line without end", noMore.unreadable(), after(flood("data: ", strings.Repeat("x", 1<<16)))),
		stream("has data without an empty line", noMore.unreadable(), after(flood("", "data: "+strings.Repeat("x", 1<<14)+"\n"))),
		stream("has ids without an empty line", noMore, after(flood("", "id: "+strings.Repeat("7", 1<<14)+"\n"))),
		stream("has a signature without end", noMore, after(flood("signature: ", strings.Repeat("x", 1<<16)))),
		// Signs of life inside of a message are none, and must not keep a stream alive that says
		// nothing.
		stream("has a message too long, with signs of life in it", noMore.unreadable(), after(func(rw http.ResponseWriter, r *http.Request) {
			say(rw, strings.Repeat("data: "+strings.Repeat("x", 1<<14)+"\n", 40))
			every(rw, r, ": heartbeat\n")
		})),
		stream("is packed, and 192 MiB when it is unpacked", never, func(rw http.ResponseWriter, r *http.Request) {
			// A guard that unpacks by itself would find 192 MiB in some hundred KiB.
			rw.Header().Set("Content-Encoding", "gzip")
			begin(rw)
			_, _ = rw.Write(packed(stopped+alive, "data: "+strings.Repeat("x", 1<<14)+"\n"))
		}),
	}
}

// strangeHeads are what may stand before a stream, and where it may break off below HTTP.
func strangeHeads() []Fault {
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	dated := func(date string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header()["Date"] = []string{date}
			begin(rw)
			say(rw, "id: 0\ndata: "+order("f", fmt.Sprintf(`,"expires_at":%q`, time.Now().Add(15*time.Minute).UTC().Format(time.RFC3339)))+"\n\n")
			beat(rw, r)
		}
	}
	return []Fault{
		stream("is a part", never, func(rw http.ResponseWriter, r *http.Request) {
			begin(rw)
			rw.WriteHeader(http.StatusPartialContent)
			say(rw, stopped+alive)
			beat(rw, r)
		}),
		stream("is refused for longer than there are years", never, replyAs(http.StatusTooManyRequests, http.Header{"Retry-After": {strings.Repeat("9", 40)}}, "{}")),
		stream("is a file", never, replyAs(http.StatusFound, http.Header{"Location": {"file:///etc/hostname"}}, "")),
		stream("has hints without end", never, rawFlood("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")),
		stream("comes after a hint", hears, rawEvery("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+head+"Connection: close\r\n\r\n"+stopped, alive)).lasting(),
		{Name: "stream is away four times", Want: hears, path: pathVerdicts, serve: reply(http.StatusBadGateway, "text/html", "502"), then: seldom(3, reply(http.StatusServiceUnavailable, "text/html", "503"), among(""))},
		stream("has a length", noMore, raw(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s%s", head, len(stopped+alive), stopped+alive, "data: "+order("h", "")))),
		stream("has a chunk that is too long", never, raw(head+"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n"+stopped+alive)),
		stream("is reset", noMore, reset(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", head, len(stopped+alive), stopped+alive))),
		stream("is of a day that is none", hears, dated("0")).lasting(),
		stream("is of a day that dates cannot hold", hears, dated("Sat, 13 Sep 275760 00:00:00 GMT")).lasting(),
		stream("is of a day in words of its own", hears, dated("2031-01-01T00:00:00Z")).lasting(),
		stream("is of a weir whose clock is three hours ahead", hears, behind(-3*time.Hour)).lasting(),
	}
}

// strangeMessages come before one that counts.
// The one that counts has to be obeyed all the same.
func strangeMessages() []Fault {
	return []Fault{
		stream("has a message of 1 MiB among others", hears.unreadable(), among("data: "+strings.Repeat("x", 1<<20)+"\n\n")).lasting(),
		stream("has a message of many lines among others", hears.unreadable(), among(strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 1000)+"\n")).lasting(),
		odd("has what is not JSON", `{"id":`),
		odd("has a list for a verdict", `[1,2,3]`),
		odd("has nothing for a verdict", `null`),
		odd("has JSON of 100,000 levels", strings.Repeat("[", 100_000)),
		odd("has an order without id", strings.Replace(order("g", ""), `"id":"of-g",`, "", 1)),
		odd("has an order whose id is a number", strings.Replace(order("g", ""), `"of-g"`, "5", 1)),
		odd("has an order whose match is no match", order("g", `,"match":{"from":7}`)),
		odd("has an order whose edges are no edges", order("g", `,"match":{"edges":["a"]}`)),
		odd("has an order whose scope is a text", strings.Replace(order("g", ""), `{"kind":"flow","id":"g"}`, `"flow"`, 1)),
		odd("has an order whose limit is a text", order("g", `,"limit":"5","observed":"6"`)),
		odd("has an order whose revision is a text", strings.Replace(order("g", ""), `"revision":1`, `"revision":"1"`, 1)),
		odd("has an order that ends at no time", order("g", `,"expires_at":"tomorrow"`)),
		odd("has an order that waits for no number", order("g", `,"retry_after_s":{}`)),
		// A later weir may give orders that this guard does not know; what it cannot carry out
		// it passes over.
		stream("has an order of a kind that nobody knows", hears, data(strings.Replace(order("g", ""), `"deny"`, `"explode"`, 1))).lasting(),
		stream("has an order about nothing that is known", hears, data(strings.Replace(order("", ""), `"kind":"flow"`, `"kind":"planet"`, 1))).lasting(),
		stream("ends lines with two characters", hears, func(rw http.ResponseWriter, r *http.Request) {
			begin(rw)
			say(rw, strings.ReplaceAll(stopped+alive, "\n", "\r\n"))
			every(rw, r, strings.ReplaceAll(alive, "\n", "\r\n"))
		}).lasting(),
		// Old proxies answer so, and the body lasts until the connection ends.
		stream("is answered in HTTP/1.0", hears, rawEvery("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+stopped, alive)).lasting(),
		stream("begins with a byte order mark", hears, among("\ufeff: heartbeat\n\n")).lasting(),
		stream("begins with a byte order mark before the order", hears, func(rw http.ResponseWriter, r *http.Request) {
			begin(rw)
			say(rw, "\ufeffdata: "+order("f", "")+"\n\n")
			beat(rw, r)
		}).lasting(),
		stream("comes in single bytes", hears, func(rw http.ResponseWriter, r *http.Request) {
			begin(rw)
			for _, c := range []byte("id: 0\ndata: " + order("f", ",\"message\":\"zu viele Anfragen f\u00fcr J\u00f6rg \U0001f6d1\"") + "\n\n" + alive) {
				say(rw, string([]byte{c}))
			}
			beat(rw, r)
		}).lasting(),
		stream("has an order in bytes that are no text", hears, data(order("g", ",\"message\":\"\xff\xc3\""))).lasting(),
		stream("has fields that it need not have", hears, among("retry: 0\nretry: -1\nretry\nid\n\nevent: other\ndata: "+order("g", "")+"\n\nevent\ndata\n\n:\n\n")).lasting(),
		stream("says everything twice, and the old behind the new", hears, func(rw http.ResponseWriter, r *http.Request) {
			newer := "data: " + strings.Replace(order("f", ""), `"revision":1`, `"revision":3`, 1) + "\n\n"
			older := "data: " + strings.NewReplacer(`"revision":1`, `"revision":2`, `"deny"`, `"allow"`).Replace(order("f", "")) + "\n\n"
			begin(rw)
			say(rw, newer+newer+older+older)
			beat(rw, r)
		}).lasting(),
		{Name: "stream has an id that no request can carry", Want: hears, path: pathVerdicts, serve: func(rw http.ResponseWriter, _ *http.Request) {
			begin(rw)
			say(rw, "id: \u2603\x01\ndata: "+order("f", "")+"\n\n"+alive)
		}, then: among("")},
		{Name: "stream has an id of 100,000 characters", Want: hears, path: pathVerdicts, serve: func(rw http.ResponseWriter, _ *http.Request) {
			begin(rw)
			say(rw, "id: "+strings.Repeat("7", 100_000)+"\ndata: "+order("f", "")+"\n\n"+alive)
		}, then: func(rw http.ResponseWriter, r *http.Request) {
			if len(r.Header.Get("Last-Event-ID")) > 1<<14 {
				// As servers do: a guard that sends such an id again and again would never be
				// heard.
				rw.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
				return
			}
			among("")(rw, r)
		}},
		stream("is all signs of life", hears, func(rw http.ResponseWriter, r *http.Request) {
			begin(rw)
			say(rw, stopped)
			flood("", strings.Repeat(alive, 1000))(rw, r)
			every(rw, r, alive)
		}).lasting(),
		{Name: "stream has more orders than there is room for", Want: Want{CheckStopped: "deny table stale", CheckOther: "allow stale_open stale", AskStopped: "deny weir", AskOther: "allow weir"}, path: pathVerdicts, lasts: true, serve: crowd(stopped), then: crowd(stopped)},
	}
}

// wrongLimits are about the limits, which a guard asks for beside.
// A guard keeps the bounds that it had.
func wrongLimits() []Fault {
	return []Fault{
		limits("are never answered", hang),
		limits("come byte by byte", dripOf(http.StatusOK)),
		limits("are 192 MiB", floodOf(http.StatusOK, "application/json", `{"document":{"rules":{}},"more":"`)),
		limits("are a list", reply(http.StatusOK, "application/json", `{"document":{"rules":[]}}`)),
		limits("are numbers", reply(http.StatusOK, "application/json", `{"document":{"rules":{"max_total_calls":5,"call_rate_per_flow":6}}}`)),
		limits("are nothing", reply(http.StatusOK, "application/json", `null`)),
	}
}

// badAnswers are of asks.
// What a guard makes of each is in Want: mostly it goes by the orders that it knows, as if
// weir had not answered.
func badAnswers() []Fault {
	return []Fault{
		check("is cut", cut),
		check("is never answered", hang),
		check("is answered byte by byte", dripOf(http.StatusOK)),
		check("is refused byte by byte", dripOf(http.StatusForbidden)),
		check("has a head that comes byte by byte", rawEvery("HTTP/1.1 200 OK\r\nX: ", "x")),
		check("is answered with 192 MiB", floodOf(http.StatusOK, "application/json", `{"verdict":{"id":"a","action":"allow"},"more":"`)),
		check("is refused with 192 MiB", floodOf(http.StatusForbidden, "application/problem+json", `{"reason_code":"self_call","action":"deny","detail":"`)),
		check("is answered with less than was said", raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"verdict\":")),
		check("is answered with nothing", reply(http.StatusOK, "application/json", "")),
		check("is answered with no verdict", reply(http.StatusOK, "application/json", `{"verdict":[]}`)),
		check("is answered with an empty verdict", reply(http.StatusOK, "application/json", `{"verdict":{}}`)),
		check("is answered with a page", pageOf("welcome")),
		check("is answered somewhere else", elsewhere),
		check("is refused without a reason", reply(http.StatusForbidden, "text/html", "<h1>403</h1>")),
		check("is refused for a reason that is a number", reply(http.StatusForbidden, "application/problem+json", `{"reason_code":5,"action":"deny"}`)),
		check("is refused for a time that is a text", reply(http.StatusTooManyRequests, "application/problem+json", `{"reason_code":"self_call","action":"deny","retry_after_s":"x"}`)),
		refusal("with status 200", refusedWell),
		refusal("by an action that nobody knows", held),
		// Only 200 carries an answer. Any other status of success comes from a server that is not weir.
		check("is answered with status 201", replyAs(http.StatusCreated, nil, allowAll)),
		check("is answered with status 204", replyAs(http.StatusNoContent, nil, "")),
		check("is answered with a part", replyAs(http.StatusPartialContent, http.Header{"Content-Range": {"bytes 0-9/10"}}, allowAll)),
		check("is not modified", replyAs(http.StatusNotModified, http.Header{"Etag": {`"a"`}}, "")),
		check("is answered with the file of a redirect", replyAs(http.StatusTemporaryRedirect, http.Header{"Location": {"file:///etc/hostname"}}, allowAll)),
		check("comes too early", replyAs(http.StatusTooEarly, nil, "")),
		check("is put off for longer than there are years", replyAs(http.StatusTooManyRequests, http.Header{"Retry-After": {strings.Repeat("9", 40)}}, "{}")),
		check("is put off to yesterday", replyAs(http.StatusServiceUnavailable, http.Header{"Retry-After": {"-86400"}}, "{}")),
		check("wants a proxy to be asked first", replyAs(http.StatusProxyAuthRequired, http.Header{"Proxy-Authenticate": {"Basic"}}, "<h1>407</h1>")),
		// No guard asks for packed answers, so a packed answer is not weir's, and may be of
		// any size.
		refusal("because weir cannot read it", reply(http.StatusBadRequest, "application/problem+json", `{"detail":"agent: must not hold control characters"}`)),
		check("is packed", replyAs(http.StatusOK, http.Header{"Content-Encoding": {"gzip"}}, string(packed(allowAll, "")))),
		check("says that it is packed, and is not", replyAs(http.StatusOK, http.Header{"Content-Encoding": {"br"}}, allowAll)),
		check("is packed, and 192 MiB when it is unpacked", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			reply(http.StatusOK, "application/json", string(packed(`{"more":"`, strings.Repeat("x", 1<<14))))(rw, r)
		}),
		check("is answered with less than there is", raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(allowAll)-1, allowAll))),
		check("is answered with chunks that are none", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"+allowAll)),
		check("is reset", reset("HTTP/1.1 200 OK\r\n")),
		check("is answered in hints without end", rawFlood("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")),
		{Name: "check is answered after a hint", Want: hears, path: pathCheck, serve: hinted, then: hinted},
		check("is answered with figures that are none", reply(http.StatusOK, "application/json", strings.Replace(allowAll, `"id"`, `"limit":NaN,"id"`, 1))),
		check("is answered with JSON of 100,000 levels", reply(http.StatusOK, "application/json", strings.Replace(allowAll, `"id"`, `"more":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+`,"id"`, 1))),
		check("is answered with text behind the verdict", reply(http.StatusOK, "application/json", allowAll+"x")),
		refusal("with a byte order mark", reply(http.StatusForbidden, "application/problem+json", "\ufeff"+refuse)),
		refusal("in bytes that are no text", reply(http.StatusForbidden, "application/problem+json", strings.Replace(refuse, `"detail":"no"`, "\"detail\":\"no\xff\"", 1))),
		refusal("in half a character", reply(http.StatusForbidden, "application/problem+json", strings.Replace(refuse, `"detail":"no"`, `"detail":"no\ud800"`, 1))),
		refusal("with a number for what is left", reply(http.StatusForbidden, "application/problem+json", strings.Replace(refuse, `{`, `{"remaining":5,`, 1))),
		refusal("with texts for what is left", reply(http.StatusForbidden, "application/problem+json", strings.Replace(refuse, `{`, `{"remaining":[{"rule_id":"x","left":"much"},7,null],`, 1))),
		refusal("for less than no time", reply(http.StatusTooManyRequests, "application/problem+json", strings.Replace(refuse, `{`, `{"retry_after_s":-5,`, 1))),
		refusal("in names that any object has", reply(http.StatusForbidden, "application/problem+json", strings.Replace(refuse, `{`, `{"__proto__":{"action":"allow"},"constructor":null,"toString":5,`, 1))),
	}
}

// allowAll is an answer of weir that lets a call pass, for answers that are nearly it.
const allowAll = `{"verdict":{"id":"a","mode":"enforce","action":"allow"}}`

// hinted answers as HTTP allows it, with a hint before the answer.
func hinted(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Link", "</style.css>")
	rw.WriteHeader(http.StatusEarlyHints)
	var ask struct {
		Flow string `json:"correlation_id"`
	}
	_ = json.NewDecoder(r.Body).Decode(&ask) // what cannot be read is about no flow
	if ask.Flow == "f" {
		reply(http.StatusForbidden, "application/problem+json", refuse)(rw, r)
		return
	}
	reply(http.StatusOK, "application/json", allowAll)(rw, r)
}

// AskStreamFaults are those of the stream that the checks of the Go guard share. A guard that
// cannot use it checks by requests, with the same answers.
func AskStreamFaults() []Fault {
	asks := func(name string, serve http.HandlerFunc) Fault {
		return Fault{Name: "stream of asks " + name, Want: hears, path: pathAsks, serve: serve, then: serve}
	}
	lines := func(fn func(rw http.ResponseWriter, r *http.Request)) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/x-ndjson")
			_ = http.NewResponseController(rw).EnableFullDuplex() // or the head waits for the asks
			say(rw, "")
			fn(rw, r)
		}
	}
	return []Fault{
		asks("is cut", cut),
		asks("is never answered", hang),
		asks("is a page", pageOf("welcome")),
		asks("ends at once", lines(func(http.ResponseWriter, *http.Request) {})),
		asks("takes asks and answers none", lines(hang)),
		asks("answers what was never asked", lines(func(rw http.ResponseWriter, r *http.Request) {
			go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			every(rw, r, `{"line":1000000,"status":200,"body":`+allowAll+"}\n")
		})),
		asks("answers what is not JSON", lines(func(rw http.ResponseWriter, r *http.Request) { say(rw, "{\n"); hang(rw, r) })),
		asks("has a line without end", lines(flood(`{"line":1,"body":"`, strings.Repeat("x", 1<<16)))),
		asks("is cut in the middle of an answer", lines(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 1))
			say(rw, `{"line":1,"status":200,"body":{"verd`)
			cut(rw, r)
		})),
	}
}

// lostAcks are about acknowledgements, which no call waits for.
func lostAcks() []Fault {
	return []Fault{
		ack("are cut", cut),
		ack("are never answered", hang),
		ack("are answered byte by byte", dripOf(http.StatusAccepted)),
		ack("are answered with 192 MiB", floodOf(http.StatusAccepted, "application/json", "{}")),
		ack("fail", reply(http.StatusInternalServerError, "text/plain", "sorry")),
	}
}

// lasting makes the fault one of every try, which never ends by itself.
// It has to be shown for as long as the test looks, because the guard tries again.
func (f Fault) lasting() Fault {
	f.lasts, f.then = true, f.serve
	return f
}

// refusedWell refuses by the verdict and not by the status: what the verdict says counts.
func refusedWell(rw http.ResponseWriter, r *http.Request) {
	reply(http.StatusOK, "application/json", `{"verdict":{"id":"a","mode":"enforce","action":"deny","reason_code":"self_call"}}`)(rw, r)
}

// held refuses by an action of a later weir: an action that is not known stops the call.
func held(rw http.ResponseWriter, r *http.Request) {
	reply(http.StatusForbidden, "application/problem+json", strings.Replace(refuse, `"deny"`, `"quarantine"`, 1))(rw, r)
}

// crowd sends 5,000 orders behind the one that counts.
// A guard that has room for fewer must keep the first.
func crowd(first string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		begin(rw)
		say(rw, first)
		var more strings.Builder
		for n := range 5000 {
			fmt.Fprintf(&more, "data: %s\n\n", order(fmt.Sprint("crowd-", n), ""))
		}
		say(rw, more.String())
		beat(rw, r)
	}
}
