package limitfile

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

// subagentKeys are the keys of an entry for a kind of subagents. The figures are in the order of their
// rules, which analyzer.KindLimits has as well, and have their names: calls of subagents are calls here.
var subagentKeys = func() []string {
	keys := []string{"kind"}
	for i := range (analyzer.KindLimits{}).Most {
		keys = append(keys, strings.Replace(jobRow(i).Name, "subagent_", "", 1))
	}
	return append(keys, "action")
}()

// maxSubagents is how many kinds may have limits of their own.
const maxSubagents = 64

// jobRow is the rule of the figure at a place of analyzer.KindLimits.
func jobRow(i int) analyzer.Row { return analyzer.FlowRow(analyzer.FirstOfJobs + analyzer.RuleID(i)) }

// subagents reads the list of limits for single kinds of subagents.
func (r *reader) subagents(n *yaml.Node) (all []analyzer.KindLimits) {
	for i, c := range r.items("subagents", n) {
		path := index("subagents", i)
		f := r.fields(path, c, subagentKeys...)
		var k analyzer.KindLimits
		if f["kind"] == nil && c.Kind == yaml.MappingNode {
			r.fail(c, path+".kind", "write kind: \"*\" for all that no other entry names", "is missing")
		}
		k.Kind, _ = r.text(path+".kind", f["kind"])
		for j := range k.Most {
			key := subagentKeys[j+1]
			if v, ok := r.amount(path+"."+key, f[key], jobRow(j).Unit); ok {
				k.Most[j] = events.Optional{Set: true, Value: v}
			}
		}
		r.either(path+".action", f["action"], actionWords, &k.Hold)
		all = append(all, k)
	}
	return all
}

// describeSubagents writes the list of limits for single kinds of subagents.
func describeSubagents(all []analyzer.KindLimits) (out list) {
	for i := range all {
		k := &all[i]
		o := object{{"kind", k.Kind}}
		for j, most := range k.Most {
			if most.Set {
				o.put(subagentKeys[j+1], amount(jobRow(j).Unit, most.Value))
			}
		}
		if k.Hold {
			o.put("action", word(actionWords[1]))
		}
		out = append(out, o)
	}
	return out
}

// subagents checks that each entry limits something and can be reached.
func (c *checker) subagents(all []analyzer.KindLimits) {
	if c.tooMany("subagents", "", "%d kinds are more than the %d that can be listed", len(all), maxSubagents) {
		return
	}
	for i := range all {
		k, path := &all[i], "subagents["+strconv.Itoa(i)+"]"
		c.text(path+".kind", k.Kind, events.MaxID)
		if j := slices.IndexFunc(all[:i], func(o analyzer.KindLimits) bool { return o.Kind == k.Kind }); j >= 0 {
			c.fail(path+".kind", "keep one of them", "is the kind of subagents[%d] as well", j)
		}
		if !slices.ContainsFunc(k.Most[:], func(o events.Optional) bool { return o.Set }) {
			c.fail(path, "give one of "+strings.Join(subagentKeys[1:len(subagentKeys)-1], ", "), "limits nothing")
		}
		for j, most := range k.Most {
			row := jobRow(j)
			reach, why := row.Reach(&rules.Setting{})
			switch {
			case !most.Set || most.Value == rules.Off:
			case most.Value < 0:
				c.fail(path+"."+subagentKeys[j+1], "", "is below 0")
			case most.Value >= reach:
				c.fail(path+"."+subagentKeys[j+1], why, "is above the greatest value %s", Amount(row.Unit, reach))
			}
		}
	}
}

// subagentSchema is what an entry for a kind of subagents may say.
func subagentSchema() object {
	figure := func(about string, forms ...any) object {
		return object{{"description", about + " since it was called. off takes the limit of the rule away."}, {"anyOf", append(list(forms), object{{"const", word("off")}})}}
	}
	whole := object{{"type", "integer"}, {"minimum", number("0")}}
	o := closed("", object{
		{"kind", nameSchema("Agents that are called so, such as the subagent_type of Claude Code. * stands for any text.")},
		{subagentKeys[1], figure("Most calls of tools and agents", whole)},
		{subagentKeys[2], figure("Most tokens: input, cached and output", whole)},
		{subagentKeys[3], figure("Longest time", object{{"$ref", "#/$defs/duration"}}, whole)},
		{subagentKeys[4], figure("Most US dollars", object{{"type", "number"}, {"minimum", number("0")}})},
		{subagentKeys[5], object{{"enum", texts(actionWords[:])}, {"default", actionWords[0]}, {"description", "hold: the subagent waits for a person, who may grant more."}}},
	})
	return append(o, pair{"required", list{"kind"}})
}
