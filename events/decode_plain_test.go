package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// plainDecode is the same decoder as Decode, written a second time for clarity
// alone: on encoding/json, one field after the other, with no regard to speed. The
// two must agree on every input.
func plainDecode(p []byte) (e Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(refusal)
		}
	}()
	refuseIf(len(p) > MaxEventBytes, "too long")
	refuseIf(!utf8.Valid(p), "not UTF-8")
	refuseIf(!json.Valid(p), "not JSON")
	refuseIf(halfSurrogate(p), "half a surrogate pair")
	refuseIf(plainDepth(p) > MaxDepth, "too deep")
	plainEvent(p, &e)
	return e, nil
}

type refusal string

func (r refusal) Error() string { return string(r) }

func refuseIf(refused bool, format string, args ...any) {
	if refused {
		panic(refusal(fmt.Sprintf(format, args...)))
	}
}

// halfSurrogate looks for an escape that is not one half of a pair. In a text that
// is JSON, backslashes stand in strings only.
func halfSurrogate(p []byte) bool {
	for i := 0; i < len(p); i++ {
		if p[i] != '\\' {
			continue
		}
		if bothHalves.Match(p[i:]) {
			i += len(`\ud83d\ude00`) - 1
			continue
		}
		if oneHalf.Match(p[i:]) {
			return true
		}
		i++
	}
	return false
}

var (
	bothHalves = regexp.MustCompile(`^\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	oneHalf    = regexp.MustCompile(`^\\u[dD][89a-fA-F]`)
)

func plainDepth(p []byte) (deepest int) {
	dec, depth := json.NewDecoder(bytes.NewReader(p)), 0
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err != nil {
			return deepest
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

type plainField struct {
	name string
	raw  json.RawMessage
}

// plainObject lists the fields of an object and refuses names given twice in it or
// in any object below.
func plainObject(p []byte) (fields []plainField) {
	refuseIf(!startsWith(p, '{'), "not an object: %s", p)
	dec, seen := json.NewDecoder(bytes.NewReader(p)), map[string]bool{}
	must(dec.Token())
	for dec.More() {
		name := must(dec.Token()).(string)
		var raw json.RawMessage
		refuseIf(dec.Decode(&raw) != nil, "no value of %s", name)
		refuseIf(seen[name], "%s twice", name)
		seen[name] = true
		plainDuplicates(raw)
		fields = append(fields, plainField{name, raw})
	}
	return fields
}

func plainDuplicates(p []byte) {
	switch {
	case startsWith(p, '{'):
		plainObject(p)
	case startsWith(p, '['):
		var all []json.RawMessage
		refuseIf(json.Unmarshal(p, &all) != nil, "no array")
		for _, raw := range all {
			plainDuplicates(raw)
		}
	}
}

func must(t json.Token, err error) json.Token {
	refuseIf(err != nil, "%v", err)
	return t
}

func startsWith(p []byte, c byte) bool {
	p = bytes.TrimLeft(p, " \t\r\n")
	return len(p) > 0 && p[0] == c
}

type readers map[string]func(raw []byte)

// plainRead hands each field to its reader and returns the names that were given.
func plainRead(p []byte, known readers) (given []string) {
	for _, f := range plainObject(p) {
		if read, ok := known[f.name]; ok {
			read(f.raw)
			given = append(given, f.name)
			continue
		}
		for name := range known {
			refuseIf(plainFold(f.name) == plainFold(name), "%s misspelled", name)
		}
	}
	return given
}

func plainFold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_':
			return -1
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

func plainText(dst *string, least, most int, lines bool) func([]byte) {
	return func(raw []byte) {
		refuseIf(!startsWith(raw, '"') || json.Unmarshal(raw, dst) != nil, "not a string: %s", raw)
		n := len([]rune(*dst))
		refuseIf(n < least || n > most, "%d characters", n)
		refuseIf(!lines && strings.ContainsFunc(*dst, func(r rune) bool { return r < ' ' }), "control character")
	}
}

func plainMatch(pattern string, set func(v string)) func([]byte) {
	return func(raw []byte) {
		var v string
		plainText(&v, 0, 1000, false)(raw)
		refuseIf(!regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(v), "%q is not %s", v, pattern)
		set(v)
	}
}

func plainOneOf[T ~uint8](dst *T, words []string) func([]byte) {
	return plainMatch(".+", func(v string) {
		i := slices.Index(words, v)
		refuseIf(i < 0, "%q unknown", v)
		*dst = T(i)
	})
}

func plainTime(dst *Stamp) func([]byte) {
	const form = `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
	return plainMatch(form, func(v string) {
		t, err := time.Parse(time.RFC3339Nano, v)
		refuseIf(err != nil, "%v", err)
		*dst = StampOf(t)
		refuseIf(*dst <= 0 || t.UTC().Year() > 9999, "%s out of range", v)
	})
}

func plainHash(dst *Hash) func([]byte) {
	return plainMatch("("+strings.Join(hashNames[1:], "|")+"):[0-9a-f]{16,128}", func(v string) {
		name, digits, _ := strings.Cut(v, ":")
		value, err := strconv.ParseUint(digits[:16], 16, 64)
		refuseIf(err != nil, "%v", err)
		*dst = Hash{HashAlgorithm(slices.Index(hashNames[:], name)), value}
	})
}

func plainCount(dst *int64, least int64) func([]byte) {
	return func(raw []byte) {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		refuseIf(err != nil || raw[0] == '-' || n < least || n > MaxNumber, "not a count: %s", raw)
		*dst = n
	}
}

func plainFloat(dst *float64, most float64) func([]byte) {
	return func(raw []byte) {
		v, err := strconv.ParseFloat(string(raw), 64)
		refuseIf(err != nil || !strings.ContainsAny(string(raw[:1]), "0123456789") || v > most, "not a number: %s", raw)
		*dst = v
	}
}

func plainDollars(dst *int64) func([]byte) {
	return func(raw []byte) {
		var rough float64
		plainFloat(&rough, 2*MaxCostUSD)(raw)
		if rough < 1e-100 {
			return // and big.Rat would need ages for some of these
		}
		exact, ok := new(big.Rat).SetString(string(raw))
		refuseIf(!ok || exact.Cmp(big.NewRat(MaxCostUSD, 1)) > 0, "too expensive: %s", raw)
		exact.Mul(exact, big.NewRat(1_000_000, 1)).Add(exact, big.NewRat(1, 2))
		*dst = new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()
	}
}

func plainBool(set func(bool)) func([]byte) {
	return func(raw []byte) {
		refuseIf(string(raw) != "true" && string(raw) != "false", "not a bool: %s", raw)
		set(string(raw) == "true")
	}
}

func plainTags(dst *[]string) func([]byte) {
	return func(raw []byte) {
		var tags []json.RawMessage
		refuseIf(!startsWith(raw, '[') || json.Unmarshal(raw, &tags) != nil || len(tags) > 32, "tags %s", raw)
		for _, tag := range tags {
			var v string
			plainText(&v, 0, 64, false)(tag)
			*dst = append(*dst, v)
		}
	}
}

func plainParty(dst *Party) func([]byte) {
	return func(raw []byte) {
		if string(raw) == "null" {
			return
		}
		plainRead(raw, readers{
			"session": plainText(&dst.Session, 1, 256, false),
			"agent":   plainText(&dst.Agent, 1, 256, false),
			"name":    plainText(&dst.Name, 0, 256, false),
			"type":    plainOneOf(&dst.Type, partyNames[:]),
			"tags":    plainTags(&dst.Tags),
		})
		refuseIf(dst.Session == "" && dst.Agent == "", "nobody")
	}
}

func needAll(given []string, names ...string) {
	for _, name := range names {
		refuseIf(!slices.Contains(given, name), "no %s", name)
	}
}

func plainEvent(p []byte, e *Event) {
	id := func(dst *string) func([]byte) { return plainText(dst, 1, 256, false) }
	line := func(dst *string, most int) func([]byte) { return plainText(dst, 0, most, false) }
	prose := func(dst *string, most int) func([]byte) { return plainText(dst, 0, most, true) }
	keep := func(dst *string) func(string) { return func(v string) { *dst = v } }
	correlations := 0
	correlation := func(raw []byte) {
		correlations++
		id(&e.CorrelationID)(raw)
	}
	given := plainRead(p, readers{
		"schema_version":     func(raw []byte) { refuseIf(string(raw) != "1", "version %s", raw) },
		"id":                 id(&e.ID),
		"source":             line(&e.Source, 512),
		"time":               plainTime(&e.Time),
		"observed_time":      plainTime(&e.Observed),
		"sequence":           plainCount(&e.Sequence, 0),
		"kind":               plainOneOf(&e.Kind, kindNames[:]),
		"correlation_id":     correlation,
		"correlationId":      correlation,
		"correlationid":      correlation,
		"correlation_source": plainOneOf(&e.CorrelationSource, correlationNames[:]),
		"causation_id":       id(&e.CausationID),
		"origin":             plainOneOf(&e.Origin, originNames[:]),
		"claimed":            plainBool(func(v bool) { e.Claimed = v }),
		"ask":                plainBool(func(v bool) { e.Ask = v }),
		"tell":               plainBool(func(v bool) { e.Tell = v }),
		"from":               plainParty(&e.From),
		"to":                 plainParty(&e.To),
		"message_id":         id(&e.MessageID),
		"conversation_id":    id(&e.ConversationID),
		"task_id":            id(&e.TaskID),
		"task_type":          line(&e.TaskType, 128),
		"project_id":         id(&e.ProjectID),
		"team_id":            id(&e.TeamID),
		"tenant_id":          id(&e.TenantID),
		"principal":          id(&e.Principal),
		"memory_trace_id":    id(&e.MemoryTraceID),
		"trace_id":           plainMatch("[0-9a-f]{32}", keep(&e.TraceID)),
		"span_id":            plainMatch("[0-9a-f]{16}", keep(&e.SpanID)),
		"parent_span_id":     plainMatch("[0-9a-f]{16}", keep(&e.ParentSpanID)),
		"turn_id":            id(&e.TurnID),
		"loop_count":         plainCount(&e.LoopCount, 0),
		"delegation_depth":   plainCount(&e.DelegationDepth, 0),
		"transfer_mode":      plainOneOf(&e.TransferMode, transferNames[:]),
		"background":         plainBool(func(v bool) { e.Background = v }),
		"tool": func(raw []byte) {
			needAll(plainRead(raw, readers{
				"name":       id(&e.Tool.Name),
				"call_id":    id(&e.Tool.CallID),
				"server":     line(&e.Tool.Server, 256),
				"type":       line(&e.Tool.Type, 64),
				"args":       func(raw []byte) { e.Tool.Args = raw },
				"args_hash":  plainHash(&e.Tool.ArgsHash),
				"args_bytes": plainCount(&e.Tool.ArgsSize, 0),
				"retry_of":   id(&e.Tool.RetryOf),
				"attempt":    plainCount(&e.Tool.Attempt, 1),
				"tags":       plainTags(&e.Tool.Tags),
				"beside":     plainBool(func(v bool) { e.Tool.Beside = v }),
				"outcome": func(raw []byte) {
					o := new(Outcome)
					e.Tool.Outcome = o
					given := plainRead(raw, readers{
						"effect":       plainOneOf(&o.Effect, effectNames[:]),
						"state_hash":   plainHash(&o.State),
						"files":        plainCount(&o.Files, 0),
						"exit_code":    plainCount(&o.Exit.Value, 0),
						"tests_passed": plainCount(&o.Passed.Value, 0),
						"tests_failed": plainCount(&o.Failed.Value, 0),
					})
					o.Exit.Set, o.Passed.Set, o.Failed.Set = slices.Contains(given, "exit_code"), slices.Contains(given, "tests_passed"), slices.Contains(given, "tests_failed")
				},
			}), "name")
		},
		"content_hash": plainHash(&e.Content),
		"content_sim": plainMatch("simhash64:[0-9a-f]{16}", func(v string) {
			value, err := strconv.ParseUint(v[len("simhash64:"):], 16, 64)
			refuseIf(err != nil, "%v", err)
			e.Sim = Fingerprint{Simhash64, value}
		}),
		"status":      plainOneOf(&e.Status, statusNames[:]),
		"error_type":  line(&e.ErrorType, 256),
		"duration_ms": plainFloat(&e.DurationMS, MaxNumber),
		"had_work":    plainBool(func(v bool) { e.HadWork = map[bool]Tri{false: No, true: Yes}[v] }),
		"work": func(raw []byte) {
			e.Work.Known = true
			plainRead(raw, readers{
				"tool_calls": plainCount(&e.Work.ToolCalls, 0),
				"outputs":    plainCount(&e.Work.Outputs, 0),
			})
		},
		"usage": func(raw []byte) {
			e.Usage.Known = true
			plainRead(raw, readers{
				"scope":                          plainOneOf(&e.Usage.Scope, usageNames[:]),
				"input_tokens":                   plainCount(&e.Usage.Input, 0),
				"output_tokens":                  plainCount(&e.Usage.Output, 0),
				"cache_read_input_tokens":        plainCount(&e.Usage.CacheRead, 0),
				"cache_creation_input_tokens":    plainCount(&e.Usage.CacheCreation, 0),
				"cache_creation_1h_input_tokens": plainCount(&e.Usage.CacheHour, 0),
				"reasoning_output_tokens":        plainCount(&e.Usage.Reasoning, 0),
				"total_tokens":                   plainCount(&e.Usage.Total, 0),
				"cost_usd":                       plainDollars(&e.Usage.CostMicroUSD),
				"cache_in_input":                 plainBool(func(v bool) { e.Usage.CacheInInput = map[bool]Tri{false: No, true: Yes}[v] }),
			})
		},
		"model":    line(&e.Model, 256),
		"provider": line(&e.Provider, 128),
		"agent_state": func(raw []byte) {
			a := new(AgentState)
			e.AgentState = a
			given := plainRead(raw, readers{
				"status":        line(&a.Status, 64),
				"margin":        line(&a.Margin, 32),
				"health":        line(&a.Health, 32),
				"coherence":     plainFloat(&a.Coherence, 1),
				"risk":          plainFloat(&a.Risk, 1),
				"void_active":   plainBool(func(v bool) { a.VoidActive = v }),
				"total_updates": plainCount(&a.TotalUpdates, 0),
				"last_update":   plainTime(&a.LastUpdate),
			})
			a.HasCoherence, a.HasRisk = slices.Contains(given, "coherence"), slices.Contains(given, "risk")
		},
		"note": func(raw []byte) {
			n := new(Note)
			e.Note = n
			plainRead(raw, readers{
				"summary": prose(&n.Summary, 1024),
				"tags":    plainTags(&n.Tags),
				"details": prose(&n.Details, 8192),
			})
		},
		"rescue": func(raw []byte) {
			r := new(Rescue)
			e.Rescue = r
			plainRead(raw, readers{
				"reason": prose(&r.Reason, 1024),
				"admin":  plainBool(func(v bool) { r.Admin = v }),
			})
		},
		"ack": func(raw []byte) {
			a := new(Ack)
			e.Ack = a
			needAll(plainRead(raw, readers{
				"verdict_id":      id(&a.VerdictID),
				"applied":         plainBool(func(v bool) { a.Applied = v }),
				"override_reason": prose(&a.OverrideReason, 1024),
				"latency_ms":      plainFloat(&a.LatencyMS, MaxNumber),
			}), "verdict_id", "applied")
		},
		"review": func(raw []byte) {
			r := new(Review)
			e.Review = r
			needAll(plainRead(raw, readers{
				"decision": plainMatch("resume|keep|archive", keep(&r.Decision)),
				"reason":   prose(&r.Reason, 1024),
			}), "decision")
		},
		"override": func(raw []byte) {
			o := new(Override)
			e.Override = o
			given := plainRead(raw, readers{
				"scope":    plainMatch("project|agent|tool|flow", func(v string) { o.Scope = ScopeKind(v) }),
				"scope_id": id(&o.ScopeID),
				"rule":     plainText(&o.Rule, 1, 64, false),
				"warn":     plainCount(&o.Warn.Value, 0),
				"stop":     plainCount(&o.Stop.Value, 0),
				"extra":    plainCount(&o.Extra, 1),
				"mode":     plainMatch("off|shadow|warn|enforce", keep(&o.Mode)),
				"reason":   plainText(&o.Reason, 1, 1024, true),
				"by":       id(&o.By),
				"expires":  plainTime(&o.Expires),
			})
			needAll(given, "scope", "scope_id", "rule", "reason", "by", "expires")
			o.Warn.Set, o.Stop.Set = slices.Contains(given, "warn"), slices.Contains(given, "stop")
			refuseIf(!o.Warn.Set && !o.Stop.Set && o.Extra == 0 && o.Mode == "", "override of nothing")
		},
		"operator": func(raw []byte) {
			o := new(Operator)
			e.Operator = o
			seconds := int64(0)
			needAll(plainRead(raw, readers{
				"reason": plainText(&o.Reason, 1, 1024, true),
				"by":     id(&o.By),
				"for_s":  plainCount(&seconds, 0),
			}), "reason", "by")
			refuseIf(seconds > 366*24*3600, "held for %d s", seconds)
			o.For = time.Duration(seconds) * time.Second
		},
		"limits": func(raw []byte) {
			refuseIf(!startsWith(raw, '{'), "limits %s", raw)
			e.Limits = raw
		},
		"sampled_rate": plainCount(&e.SampledRate, 1),
		"tags":         plainTags(&e.Tags),
		"attributes": func(raw []byte) {
			all := plainObject(raw)
			refuseIf(len(all) > 64, "%d attributes", len(all))
			for _, f := range all {
				refuseIf(len([]rune(f.name)) > 256, "attribute with a name too long")
				refuseIf(startsWith(f.raw, '{') || startsWith(f.raw, '['), "attribute %s", f.raw)
				e.Attributes = append(e.Attributes, Attribute{f.name, f.raw})
			}
		},
	})
	needAll(given, "id", "time", "kind")
	refuseIf(correlations > 1, "correlation_id twice")
	switch e.Kind {
	case AgentCall:
		refuseIf(e.To.IsZero(), "no to")
	case AgentReturn:
		refuseIf(e.From.IsZero(), "no from")
	case ToolCall, ToolResult:
		needAll(given, "tool")
	case TurnStart:
		needAll(given, "turn_id")
	case TaskLoop, TaskReflect:
		if e.TaskID == "" {
			e.TaskID = UnknownTask
		}
	case AgentStatus:
		needAll(given, "agent_state")
		refuseIf(e.From.IsZero(), "no from")
	case AgentActivity:
		needAll(given, "agent_state")
	case NoteAdded:
		needAll(given, "note")
	case RescueRequest:
		needAll(given, "rescue")
		refuseIf(e.To.IsZero(), "no to")
	case VerdictAck:
		needAll(given, "ack")
	case ReviewResult:
		needAll(given, "review")
		refuseIf(e.To.IsZero(), "no to")
	case OverrideSet:
		needAll(given, "override")
	case OperatorStop, OperatorRelease:
		needAll(given, "operator")
	case LimitsSet:
		needAll(given, "limits")
	}
}

// agree fails unless both decoders say the same of p. It returns the event that
// they agree on, or false when they refuse.
func agree(t *testing.T, p []byte) (e Event, ok bool) {
	t.Helper()
	err := Decode(p, &e)
	want, plainErr := plainDecode(p)
	if (err == nil) != (plainErr == nil) {
		t.Fatalf("Decode: %v; plain: %v; input %q", err, plainErr, p)
	}
	if err != nil {
		fault, typed := errors.AsType[*DecodeError](err)
		if !typed || !slices.Contains(Codes(), fault.Code) || fault.Offset < 0 || fault.Offset > len(p) || fault.Reason == "" {
			t.Fatalf("not a good error: %#v; input %q", err, p)
		}
		return Event{}, false
	}
	if !reflect.DeepEqual(e, want) {
		t.Fatalf("Decode\n%+v\nplain\n%+v\ninput %q", e, want, p)
	}
	return e, true
}

// FuzzDecode holds Decode against plainDecode, and AppendJSON against Decode: what
// was encoded is decoded to the same event, and encoded again to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, text := range seeds {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if e, ok := agree(t, p); ok {
			roundTrip(t, &e)
		}
	})
}

// FuzzNumber holds the readers of numbers against math/big and strconv, for all digits and
// exponents: FuzzDecode seldom comes to change the digits of a number alone.
func FuzzNumber(f *testing.F) {
	for _, whole := range []uint64{0, 1, 999_999_999, MaxCostUSD, 1 << 53, 922337203685477581, 1844674407370955162, math.MaxUint64} {
		f.Add(whole, uint64(0), int16(0))
		f.Add(whole, uint64(499_999_999), int16(-6))
		f.Add(whole, whole, int16(-11))
	}
	f.Fuzz(func(t *testing.T, whole, fraction uint64, exp int16) {
		for _, text := range []string{fmt.Sprint(whole), fmt.Sprintf("%d%019d", whole, fraction), fmt.Sprintf("%d.%d", whole, fraction), fmt.Sprintf("%de%d", whole, exp%40),
			fmt.Sprintf("%d.%09dE%+d", whole, fraction, exp%40), fmt.Sprintf("0.%020d%de%d", whole, fraction, exp%40)} {
			agree(t, []byte(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"flow.end","usage":{"cost_usd":`+text+`}}`))
			agree(t, []byte(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"tick","sequence":`+text+`}`))
			agree(t, []byte(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"tick","duration_ms":`+text+`}`))
		}
	})
}

// roundTrip fails unless e survives its own encoding. Line breaks between the
// tokens of raw values become spaces, so these are compared without regard to them.
func roundTrip(t *testing.T, e *Event) {
	t.Helper()
	oneLine := func(raw []byte) []byte {
		if raw == nil {
			return nil
		}
		return bytes.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return ' '
			}
			return r
		}, raw)
	}
	want := *e
	want.Tool.Args, want.Limits = oneLine(e.Tool.Args), oneLine(e.Limits)
	text := e.AppendJSON([]byte("before "))
	if !bytes.HasPrefix(text, []byte("before {")) || bytes.ContainsAny(text, "\n\r") {
		t.Fatalf("AppendJSON: %q", text)
	}
	text = text[len("before "):]
	var got Event
	if err := Decode(text, &got); err != nil {
		if fault, ok := errors.AsType[*DecodeError](err); ok && fault.Code == CodeTooLong && len(text) > MaxEventBytes {
			return // an escape may be longer than what it was read from
		}
		t.Fatalf("decode what was encoded: %v: %s", err, text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("after encoding\n%+v\nbefore\n%+v\ntext %s", got, want, text)
	}
	if again := got.AppendJSON(nil); !bytes.Equal(again, text) {
		t.Fatalf("encoded again\n%s\nat first\n%s", again, text)
	}
}
