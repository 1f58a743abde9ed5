package events

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// full has every field that an event may have, in the order of the schema.
const full = `{"id":"e-1","source":"/src","time":"2026-11-20T14:00:00.250Z","observed_time":"2026-11-20T14:00:01.000Z",` +
	`"sequence":7,"kind":"tool.result","correlation_id":"f","correlation_source":"prompt","causation_id":"e-0","origin":"scheduler",` +
	`"claimed":true,"ask":true,"tell":true,"from":{"session":"s1","agent":"a1","name":"Ann","type":"workflow","tags":["batch"]},"to":{"agent":"a2"},"message_id":"m",` +
	`"conversation_id":"c","task_id":"t","task_type":"loop","project_id":"p","team_id":"tm","tenant_id":"tn","principal":"pr","memory_trace_id":"mt",` +
	`"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b000000000000003","parent_span_id":"b000000000000002","turn_id":"2",` +
	`"loop_count":3,"delegation_depth":2,"transfer_mode":"pass_control","background":true,"tool":{"name":"search","call_id":"c1","server":"mcp",` +
	`"type":"function","args":{"q":["a",1.50,null]},"args_hash":"xxh64:0123456789abcdef","args_bytes":20,"retry_of":"c0","attempt":2,"tags":["safe","idle"]},` +
	`"content_hash":"sha256:fedcba9876543210","content_sim":"simhash64:00ff00ff00ff00ff","status":"input_required","error_type":"E",` +
	`"duration_ms":12.5,"had_work":false,"work":{"tool_calls":1,"outputs":2},"usage":{"scope":"cumulative","input_tokens":1,` +
	`"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"cache_creation_1h_input_tokens":2,"reasoning_output_tokens":5,"cache_in_input":true,"total_tokens":6,` +
	`"cost_usd":0.000123},"model":"m1","provider":"pr","agent_state":{"status":"active","margin":"tight","health":"healthy",` +
	`"coherence":0.5,"risk":0,"void_active":true,"total_updates":9,"last_update":"2026-11-20T13:59:00.000Z"},"note":{"summary":"s\nt",` +
	`"tags":["stuck","help"],"details":"d"},"rescue":{"reason":"r","admin":true},"ack":{"verdict_id":"v","applied":false,` +
	`"override_reason":"o","latency_ms":3.25},"review":{"decision":"keep","reason":"r"},"override":{"scope":"tool","scope_id":"search",` +
	`"rule":"repetition","warn":0,"stop":9,"extra":3,"mode":"shadow","reason":"r","by":"b","expires":"2026-12-01T00:00:00.000Z"},` +
	`"operator":{"reason":"r","by":"b","for_s":60},"limits":{"profile":"balanced"},"sampled_rate":10,"tags":["env=batch"],` +
	`"attributes":{"k":"v","n":-1.0e3,"b":true,"z":null}}`

// seeds are where the fuzzers start.
var seeds = []string{
	full, ordinaryCall, ordinaryResult,
	`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"tick"}`,
	` { "id" : "1" , "time" : "2024-02-29T23:59:59.999999999-23:59" , "kind" : "llm.call" , "usage" : { "cost_usd" : 1.5e-5 } , "x" : [ ] } `,
	`{"id":"\u00e9\ud83d\ude00","time":"2026-11-20T14:00:00+05:30","kind":"turn.start","turn_id":"ü","correlationId":"a"}`,
	`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"limits.set","limits":{"a":{"b":[1,-2.5e+3,false]}}}`,
	`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call","from":null,"to":{"session":"s"},"correlationid":"a","correlation_id":"b"}`,
	`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"note","note":{"tags":["a","b"]},"\u0069d":"2"}`,
	`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"operator.stop","operator":{"reason":"x","by":"y","for_s":31622400}}`,
	`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"flow.end","usage":{"cost_usd":1000000000.0000000},"duration_ms":9007199254740993e-1}`,
}

// with returns a small good event with more fields before the closing brace.
func with(fields string) string {
	return `{"id":"1","time":"2026-11-20T14:00:00Z","kind":"flow.start",` + fields + `}`
}

func TestDecodeReadsEveryField(t *testing.T) {
	e, ok := agree(t, []byte(full))
	if !ok {
		t.Fatal("refused")
	}
	if got := string(e.AppendJSON(nil)); got != full {
		t.Errorf("encoded\n%s\nwant\n%s", got, full)
	}
	if e.Time.Time() != time.Date(2026, 11, 20, 14, 0, 0, 250e6, time.UTC) || e.Usage.CostMicroUSD != 123 ||
		e.Content != (Hash{SHA256, 0xfedcba9876543210}) || !e.AgentState.HasRisk || !e.Override.Warn.Set || e.Operator.For != time.Minute {
		t.Errorf("decoded %+v", e)
	}
}

func TestDecodeForgetsTheEventBefore(t *testing.T) {
	var e, fresh Event
	if err := errors.Join(Decode([]byte(full), &e), Decode([]byte(ordinaryCall), &e), Decode([]byte(ordinaryCall), &fresh)); err != nil {
		t.Fatal(err)
	}
	if a, b := string(e.AppendJSON(nil)), string(fresh.AppendJSON(nil)); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
}

func TestDecodeAccepts(t *testing.T) {
	f := func(text string) {
		t.Helper()
		if e, ok := agree(t, []byte(text)); ok {
			roundTrip(t, &e)
		} else {
			t.Errorf("refused: %v: %s", Decode([]byte(text), new(Event)), text)
		}
	}
	for _, text := range seeds[:7] {
		f(text)
	}
	f(with(`"correlationId":"f"`))
	f(with(`"correlationid":"f"`))
	f(with(`"c_o_r_r_e_l_a_t_i_o_n_x":1,"ids":2,"":3`))
	f(with(`"from":null,"to":null`))
	f(with(`"from":{"session":"s","future":{"a":1,"b":{"a":1}}}`))
	f(with(`"x":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1)))
	f(with(`"source":"` + strings.Repeat("ü", MaxSource) + `"`))
	f(with(`"note":{"summary":"two\nlines\u0000"}`))
	f(with(`"usage":{"cost_usd":1e9}`))
	f(with(`"usage":{"cost_usd":0.0000004999999999999999999999999999}`))
	f(with(`"usage":{"cost_usd":0.00000050000000000000000000000}`))
	f(with(`"usage":{"cost_usd":12345678.12345650000000000000000000001E-3}`))
	f(with(`"usage":{"cost_usd":0e999999999999}`))
	f(with(`"duration_ms":0.1e-400`))
	f(with(`"duration_ms":123456789012345678901e-10`))
	f(with(`"sequence":9007199254740992`))
	f(with(`"work":{},"usage":{},"attributes":{}`))
	f(with(`"x":{"k":1` + manyFields(1000) + `}`))
	f("\n\t" + with("\"tool\":{\"name\":\"x\",\"args\":{\n\"a\":\r\n1}}") + "\r\n")
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"k` + strings.Repeat("x", i%7) + time.Duration(i).String() + `":1`)
	}
	return b.String()
}

func TestDecodeRefuses(t *testing.T) {
	f := func(text string, code Code, field string, offset int) {
		t.Helper()
		agree(t, []byte(text))
		fault, ok := errors.AsType[*DecodeError](Decode([]byte(text), new(Event)))
		if !ok {
			t.Errorf("accepted: %s", text)
		} else if fault.Code != code || fault.Field != field || fault.Offset != offset {
			t.Errorf("got %v\nwant %s, field %q, byte %d: %s", fault, code, field, offset, text)
		}
	}
	// at is the offset of mark in an event with the fields.
	g := func(fields, mark string, code Code, field string) {
		t.Helper()
		text := with(fields)
		f(text, code, field, strings.LastIndex(text, mark))
	}
	f("", CodeSyntax, "", 0)
	f("null", CodeWrongType, "", 0)
	f("[]", CodeWrongType, "", 0)
	f("\ufeff{}", CodeSyntax, "", 0)
	f("{}", CodeMissingField, "id", 2)
	f("{,}", CodeSyntax, "", 1)
	f(`{"id"}`, CodeSyntax, "", 5)
	f(`{"id":"1",}`, CodeSyntax, "", 10)
	f(`{"id":"1"`, CodeSyntax, "", 9)
	f(`{"id":"1" "time":""}`, CodeSyntax, "", 10)
	f(`{id:1}`, CodeSyntax, "", 1)
	f(`{"id":`, CodeSyntax, "id", 6)
	f(`{"id":"1`, CodeSyntax, "id", 6)
	f(`{"id":"1\`, CodeSyntax, "id", 8)
	f(`{"x":tru}`, CodeSyntax, "x", 5)
	f(`{"x":01}`, CodeSyntax, "x", 5)
	f(`{"x":1.}`, CodeSyntax, "x", 5)
	f(`{"x":-}`, CodeSyntax, "x", 5)
	f(`{"x":1e}`, CodeSyntax, "x", 5)
	f(`{"x":[1,]}`, CodeSyntax, "x", 8)
	f(`{"x":[1 2]}`, CodeSyntax, "x", 8)
	f(`{"x":"\x"}`, CodeSyntax, "x", 6)
	f(`{"x":"\u12g4"}`, CodeSyntax, "x", 6)
	f("{\"x\":\"a\tb\"}", CodeSyntax, "x", 7)
	f("{\"id\":\"\xff\"}", CodeInvalidUTF8, "id", 6)
	f("{\"id\":\"\xed\xa0\x80\"}", CodeInvalidUTF8, "id", 6)
	f("{\"\xc0\x80\":1}", CodeInvalidUTF8, "", 1)
	f(`{"id":"\ud800"}`, CodeInvalidUTF8, "id", 7)
	f(`{"id":"\udc00\ud800"}`, CodeInvalidUTF8, "id", 7)
	f(`{"id":"\ud800\u0041"}`, CodeInvalidUTF8, "id", 7)
	f(`{"id":"1","kind":"tick"}`, CodeMissingField, "time", 24)
	f(`{"id":"1","time":"2026-11-20T14:00:00Z"}`, CodeMissingField, "kind", 40)
	f(with(`"x":1`)+"{}", CodeTrailingData, "", len(with(`"x":1`)))
	f(with(`"x":"`+strings.Repeat("y", MaxEventBytes)+`"`), CodeTooLong, "", MaxEventBytes)

	g(`"id":"2"`, `"id"`, CodeDuplicateField, "id")
	g(`"\u0069d":"2"`, `"\u0069d"`, CodeDuplicateField, "id")
	g(`"correlation_id":"a","correlationId":"a"`, `"correlationId"`, CodeDuplicateField, "correlation_id")
	g(`"x":1,"x":1`, `"x"`, CodeDuplicateField, "x")
	g(`"x":[{"a":{},"\u0061":2}]`, `"\u0061"`, CodeDuplicateField, "x.a")
	g(`"x":{"k":1`+manyFields(1000)+`,"k":1}`, `"k":1}`, CodeDuplicateField, "x.k")
	g(`"tool":{"name":"a","args":{"b":1,"b":2}}`, `"b"`, CodeDuplicateField, "tool.args.b")
	g(`"from":{"agent":"a","agent":"b"}`, `"agent"`, CodeDuplicateField, "from.agent")
	g(`"attributes":{"a":1,"a":1}`, `"a"`, CodeDuplicateField, "attributes.a")
	g(`"limits":{"a":1,"a":1}`, `"a"`, CodeDuplicateField, "limits.a")

	g(`"CORRELATIONID":"a"`, `"CORR`, CodeMisspelledField, "CORRELATIONID")
	g(`"Correlation_Id":"a"`, `"Corr`, CodeMisspelledField, "Correlation_Id")
	g(`"taskId":"a"`, `"taskId`, CodeMisspelledField, "taskId")
	g(`"from":{"sessi_on":"a"}`, `"sessi_on`, CodeMisspelledField, "from.sessi_on")
	g(`"usage":{"inputTokens":1}`, `"inputTokens`, CodeMisspelledField, "usage.inputTokens")

	g(`"sequence":"1"`, `"1"`, CodeWrongType, "sequence")
	g(`"sequence":1.0`, `1.0`, CodeWrongType, "sequence")
	g(`"sequence":1e3`, `1e3`, CodeWrongType, "sequence")
	g(`"sequence":-1`, `-1`, CodeOutOfRange, "sequence")
	g(`"sequence":9007199254740993`, `900`, CodeOutOfRange, "sequence")
	g(`"sequence":99999999999999999999999`, `99999999999999999999999`, CodeOutOfRange, "sequence")
	g(`"sequence":01`, `01`, CodeSyntax, "sequence")
	g(`"sampled_rate":0`, `0}`, CodeOutOfRange, "sampled_rate")
	g(`"duration_ms":-0.5`, `-0.5`, CodeOutOfRange, "duration_ms")
	g(`"duration_ms":1e16`, `1e16`, CodeOutOfRange, "duration_ms")
	g(`"duration_ms":1e999`, `1e999`, CodeOutOfRange, "duration_ms")
	g(`"duration_ms":true`, `true`, CodeWrongType, "duration_ms")
	g(`"agent_state":{"risk":1.0000001}`, `1.0000001`, CodeOutOfRange, "agent_state.risk")
	g(`"usage":{"cost_usd":1000000000.00000000000000000001}`, `1000`, CodeOutOfRange, "usage.cost_usd")
	g(`"usage":{"cost_usd":1e30}`, `1e30`, CodeOutOfRange, "usage.cost_usd")
	g(`"usage":{"cost_usd":1844674407370955162}`, `1844674407370955162`, CodeOutOfRange, "usage.cost_usd") // ten times it is 4 above 2^64
	g(`"source":null`, `null`, CodeWrongType, "source")
	g(`"ask":1`, `1}`, CodeWrongType, "ask")
	g(`"from":"me"`, `"me"`, CodeWrongType, "from")
	g(`"from":{}`, `}}`, CodeMissingField, "from")
	g(`"from":{"name":"x"}`, `}}`, CodeMissingField, "from")
	g(`"from":{"session":""}`, `""`, CodeInvalidValue, "from.session")
	g(`"tool":{"call_id":"x"}`, `}}`, CodeMissingField, "tool.name")
	g(`"correlation_id":""`, `""`, CodeInvalidValue, "correlation_id")
	g(`"correlation_id":"a\nb"`, `"a\n`, CodeInvalidValue, "correlation_id")
	g(`"correlation_id":"`+strings.Repeat("x", MaxID+1)+`"`, `"xx`, CodeTooLong, "correlation_id")
	g(`"observed_time":"2026-02-29T00:00:00Z"`, `"2026-02-29`, CodeInvalidValue, "observed_time")
	g(`"observed_time":"1970-01-01T00:00:00Z"`, `"1970`, CodeInvalidValue, "observed_time")
	g(`"content_hash":"crc32:0123456789abcdef"`, `"crc32`, CodeInvalidValue, "content_hash")
	g(`"content_hash":"xxh64:0123456789abcde"`, `"xxh64`, CodeInvalidValue, "content_hash")
	g(`"content_hash":"xxh64:0123456789abcdeF"`, `"xxh64`, CodeInvalidValue, "content_hash")
	g(`"content_sim":"simhash64:0123456789abcdef0"`, `"simhash`, CodeInvalidValue, "content_sim")
	g(`"trace_id":"0af7651916cd43dd8448eb211c80319C"`, `"0af`, CodeInvalidValue, "trace_id")
	g(`"origin":""`, `""`, CodeInvalidValue, "origin")
	g(`"origin":"robot"`, `"robot"`, CodeInvalidValue, "origin")
	g(`"schema_version":2`, `2}`, CodeInvalidValue, "schema_version")
	g(`"schema_version":  2`, `2}`, CodeInvalidValue, "schema_version")
	g(`"limits":[]`, `[]`, CodeWrongType, "limits")
	g(`"attributes":{"a":{}}`, `{}}`, CodeWrongType, "attributes.a")
	g(`"attributes":{"k":1`+manyFields(MaxAttributes)+`}`, lastName(), CodeTooLong, "attributes."+strings.Trim(lastName(), `"`))
	g(`"note":{"tags":["a"`+strings.Repeat(`,"a"`, MaxTags)+`]}`, `"a"]`, CodeTooLong, "note.tags")
	g(`"review":{"decision":"shrug"}`, `"shrug"`, CodeInvalidValue, "review.decision")
	g(`"override":{"scope":"flow","scope_id":"f","rule":"r","reason":"r","by":"b","expires":"2026-12-01T00:00:00Z"}`, `}}`, CodeMissingField, "override")
	g(`"override":{"scope":"team"}`, `"team"`, CodeInvalidValue, "override.scope")
	g(`"operator":{"reason":"","by":"b"}`, `"",`, CodeInvalidValue, "operator.reason")
	g(`"operator":{"reason":"r","by":"b","for_s":31622401}`, `31622401`, CodeOutOfRange, "operator.for_s")
	g(`"ack":{"verdict_id":"v"}`, `}}`, CodeMissingField, "ack.applied")
	g(`"x":`+strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth), `[]`, CodeTooDeep, "x")
}

// lastName is the name of the last of manyFields(MaxAttributes), in quotes.
func lastName() string {
	all := manyFields(MaxAttributes)
	name, _, _ := strings.Cut(all[strings.LastIndex(all, ",")+1:], ":")
	return name
}
