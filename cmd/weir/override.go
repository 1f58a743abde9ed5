package main

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/spelling"
	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/events"
)

// overrideCommand is weir limits override: other limits of one rule for one flow, for a while.
// It is an event in the log, so a fold of the log takes it into account from where it stands.
func overrideCommand() cli.Command {
	return cli.Command{
		Name: "override", Short: "give one flow other limits for a while",
		Long: `Writes another limit of one rule for one flow to the log of a running weir. Orders that
the new limit would not have given are lifted at once. The log records author and
reason. The running weir must have an admin token, and requires it.

--stop and --warn are counted like the active limit of the rule. Where it has max,
--stop is the highest allowed value, else the value at which it stops. Money is in US
dollars, time in seconds or like 90m. A rule that is off is judged for no flow and
cannot be overridden; one in mode shadow can.

This sets limits of one flow. Limits of a project, an agent or a tool are in the limits
file under overrides. A running weir reads that file again by itself.`,
		Examples: []string{
			`weir limits override --flow order-77 --rule max_total_calls --stop 500 --reason "large order" --for 2h`,
			`weir limits override --flow order-77 --rule repetition --mode shadow --reason "polls" --until 2026-12-01T00:00:00Z`,
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			// Pointers, which hold what was given once the command line is read.
			f := overrideFlags{
				rule: fs.String("rule", "", "change the `RULE`; weir rules ls lists them"),
				flow: fs.String("flow", "", "for the `FLOW` with this id"), scope: fs.String("scope", "", "for a `SCOPE` such as flow:order-77; only flows so far"),
				// Texts, because their unit is that of the rule, which is read later.
				warn: fs.String("warn", "", "warn from this `VALUE` on"), stop: fs.String("stop", "", "stop at this `VALUE`"),
				mode:  cli.NewChoice(fs, "mode", "", "`MODE` of the rule: off, shadow, warn or enforce", "off", "shadow", "warn", "enforce"),
				until: fs.String("until", "", "valid until `TIME`, such as 2026-12-01T00:00:00Z"),
				long:  fs.Duration("for", 0, "valid for `DURATION`"),
			}
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				o, err := f.order()
				if err != nil {
					return err
				}
				// The flags of the order are checked before its author, so that an error in them is
				// reported first.
				o.Reason = *h.reason
				if o.By, err = h.signed(env); err != nil {
					return err
				}
				return h.override(ctx, env, &o)
			}
		},
	}
}

// overrideFlags say what is different, for what and until when.
//
// "" and 0 mean that a flag was not given; a threshold of 0 is written as "0".
type overrideFlags struct {
	rule, flow, scope, warn, stop, until *string
	mode                                 *cli.Choice
	long                                 *time.Duration
}

// order checks what can be checked without asking, in the order in which a person can mend it,
// and makes the order. Whether the rule is on by the limits in force only the running weir
// knows, and it has the last word.
func (f *overrideFlags) order() (o api.OverrideOrder, err error) {
	// The zero row, of a name that is not known, is about no agents.
	row, ok := analyzer.RowNamed(*f.rule)
	switch {
	case *f.rule == "":
		return o, cli.Usage("--rule is missing").Advise("weir rules ls lists the rules")
	// Before the name is found wanting: an agents' rule is known and still cannot be changed
	// for one flow.
	case row.OfAgents():
		return o, cli.Usage("%s is about agents over all flows; overrides change rules about flows", row.Name).Advise("change it in the limits file, for everybody")
	case !ok || row.Fixed:
		fault := cli.Usage("there is no rule %q whose limits could change", *f.rule)
		if near := spelling.Nearest(*f.rule, ruleNames()); near != "" && !ok {
			return o, fault.Advise("did you mean %s", near)
		}
		return o, fault.Advise("weir rules ls lists the rules")
	// Neither or both.
	case (*f.flow == "") == (*f.scope == ""):
		return o, cli.Usage("want one of --flow and --scope")
	case (*f.until == "") == (*f.long == 0):
		return o, cli.Usage("want one of --for and --until").Advise("nothing is overridden for ever; change the limits file for that")
	case *f.warn == "" && *f.stop == "" && f.mode.Value == "":
		return o, cli.Usage("it changes nothing").Advise("give --stop, --warn or --mode")
	}
	o = api.OverrideOrder{Scope: events.ScopeFlow, ScopeID: *f.flow, Rule: *f.rule, Mode: f.mode.Value, Expires: *f.until}
	// Scopes of other kinds are sent as they are, so that the answer is the server's and grows
	// with it.
	if *f.scope != "" {
		// An id may have colons in it, so only the first one parts the two.
		kind, id, ok := strings.Cut(*f.scope, ":")
		if o.Scope, o.ScopeID = events.ScopeKind(kind), id; !ok || id == "" {
			return o, cli.Usage("--scope %s: want one such as flow:order-77", *f.scope)
		}
	}
	// Checked here, so that an error is reported before a request is sent; the server reads it again.
	if *f.until != "" {
		if _, ok := events.ParseStamp(*f.until); !ok {
			return o, cli.Usage("--until %s: want a time such as 2026-12-01T00:00:00Z", *f.until)
		}
	}
	if o.ForS, err = seconds("for", *f.long); err != nil {
		return o, err
	}
	if o.Warn, err = amountOf("warn", *f.warn, row.Unit); err != nil {
		return o, err
	}
	o.Stop, err = amountOf("stop", *f.stop, row.Unit)
	return o, err
}

// amountOf reads a value as people write it, in the unit of a rule, and returns it as
// events carry it.
//
// nil means that the flag was not given. Money becomes millionths of a US dollar, time
// whole seconds, of which fractions are cut. Nothing is above 2^53, up to which JSON numbers
// are exact in every language.
func amountOf(name, s string, unit events.Unit) (*int64, error) {
	if s == "" {
		return nil, nil
	}
	const most = 1 << 53
	// Its error is looked at below, since units may be written in other ways.
	v, err := strconv.ParseInt(s, 10, 64)
	want := "a whole number"
	switch unit {
	case events.UnitUSD:
		want = "dollars such as 2.50"
		var dollars float64
		dollars, err = strconv.ParseFloat(s, 64)
		// Written so that NaN is refused, too.
		if dollars = math.Round(dollars * 1e6); !(dollars >= 0 && dollars <= most) {
			return nil, cli.Usage("--%s %s: want %s", name, s, want)
		}
		v = int64(dollars)
	case events.UnitSeconds:
		want = "seconds, or a time such as 90m"
		if err != nil {
			var d time.Duration
			d, err = time.ParseDuration(s)
			v = int64(d / time.Second)
		}
	}
	if err != nil || v < 0 || v > most {
		return nil, cli.Usage("--%s %s: want %s", name, s, want)
	}
	return &v, nil
}

// override sends the order and says until when it holds, by the server's clock.
func (h *hand) override(ctx context.Context, env *cli.Env, o *api.OverrideOrder) error {
	var a api.OperatorAnswer
	if err := h.give(ctx, env, "/v1/overrides", o, &a); err != nil {
		return err
	}
	return env.Value(a, func() error {
		if _, err := cli.Fprintf(env.Out, "%s has its own %s until %s\n", a.Flow, o.Rule, a.Until); err != nil {
			return err
		}
		if a.New {
			env.Notice("this weir has not heard of %s before: it holds for when it comes", a.Flow)
		}
		env.Notice("event %s by %s", a.ID, a.By)
		return nil
	})
}
