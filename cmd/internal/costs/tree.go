package costs

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"weir/analyzer/prices"
	"weir/events"
)

// The kinds of nodes of a tree of costs.
const (
	FlowNode  = "flow"
	AgentNode = "agent"
	ToolNode  = "tool"
)

// Node is what a flow, an agent or a tool has spent. Own and the All of its parts add up to All, so
// that each call and each token is in one node's Own.
type Node struct {
	Parent  int    `json:"parent"` // place of the node above in the list; -1 for the flow that was asked for
	Depth   int    `json:"depth"`  // 0 for that flow
	Kind    string `json:"kind"`   // flow, agent or tool
	Name    string `json:"name"`
	Session string `json:"session,omitempty"` // of an agent, if it differs from the name
	Own     Spent  `json:"own"`               // of the node itself
	All     Spent  `json:"all"`               // of the node and its parts

	parts []*Node
}

// Title names the node for people, such as "agent planner".
func (n *Node) Title() string {
	if n.Session != "" {
		return n.Kind + " " + n.Name + " (" + n.Session + ")"
	}
	return n.Kind + " " + n.Name
}

// Tree is what a flow and the flows that descend from it have spent.
type Tree struct {
	Flow string `json:"flow"`
	// Nodes has each node before its parts, and the parts that spent most first.
	Nodes []*Node `json:"nodes"`
	// Truncated reports that the tree has more nodes than are kept. What the others spent is in the Own
	// of the node above them.
	Truncated bool `json:"truncated,omitempty"`
	// Unpriced are the models of the tree without a price. What they cost is missing in the money.
	Unpriced []UnpricedModel `json:"unpriced_models"`
	Advice   string          `json:"unpriced_advice,omitempty"` // with Unpriced: how they get a price
}

// Links are the parents of flows, as their events name them. A flow keeps the first.
type Links map[string]string

// Note enters the parent that the event names for its flow.
func (l Links) Note(ev *events.Event) {
	parent, flow := cmp.Or(ev.ParentCorrelationID, ev.RootCorrelationID), ev.FlowKey()
	if parent == "" || parent == flow {
		return
	}
	if _, known := l[flow]; !known {
		l[string([]byte(flow))] = string([]byte(parent)) // both may alias what is read
	}
}

// Below returns the flow and all flows that descend from it.
func (l Links) Below(flow string) map[string]bool {
	children := map[string][]string{}
	for child, parent := range l {
		children[parent] = append(children[parent], child)
	}
	in, open := map[string]bool{flow: true}, []string{flow}
	for len(open) > 0 {
		next := open[0]
		open = open[1:]
		for _, child := range children[next] {
			if !in[child] {
				in[child], open = true, append(open, child)
			}
		}
	}
	return in
}

// MostNodes is how many nodes a Forest keeps.
const MostNodes = 20_000

// Forest adds up what is spent by flow, agent and tool. It is for one goroutine.
type Forest struct {
	links Links
	flows map[string]*stem
	nodes int
	most  int
	full  bool
}

// NewForest returns a forest of at most that number of nodes.
func NewForest(most int) *Forest {
	return &Forest{links: Links{}, flows: map[string]*stem{}, most: most}
}

// stem is one flow while it is added up.
type stem struct {
	Node
	agents   []placed  // in the order of their first events
	unpriced *Unpriced // nil as long as all has a price
}

// placed is an agent and the node that it is a part of.
type placed struct{ node, above *Node }

// Note enters what the event spent by the table of prices. Call it for each event of the log in its order: the
// first call of an agent places it below its caller.
func (f *Forest) Note(t prices.Table, ev *events.Event, s Spent) {
	f.links.Note(ev)
	at := f.flow(ev.FlowKey())
	if at == nil {
		return
	}
	node := &at.Node
	if from := f.agent(at, &at.Node, &ev.From); from != nil {
		node = from
	}
	if ev.Kind == events.AgentCall {
		f.agent(at, node, &ev.To)
	}
	if ev.Tool.Name != "" {
		if tool := f.part(node, ToolNode, ev.Tool.Name, ""); tool != nil {
			node = tool
		}
	}
	node.Own.Add(s)
	if at.unpriced == nil && (ev.Kind == events.LLMCall || s.Unpriced > 0) {
		at.unpriced = NewUnpriced(flowUnpriced)
	}
	if at.unpriced != nil {
		at.unpriced.Note(t, ev, s)
	}
}

// flow returns the node of a flow; nil for one that there is no room for.
func (f *Forest) flow(key string) *stem {
	at := f.flows[key]
	if at == nil && f.room() {
		at = &stem{Node: Node{Kind: FlowNode, Name: string([]byte(key))}}
		f.flows[at.Name] = at
	}
	return at
}

// agent returns the node of a party, and makes it below another one at its first event; nil for a
// person.
//
// A party that is called by its name alone is that of the first session that reports with this name.
// Further sessions of that name are beside it.
func (f *Forest) agent(at *stem, above *Node, p *events.Party) *Node {
	if p.IsZero() || p.Type == events.PartyHuman {
		return nil
	}
	name, session := cmp.Or(p.Agent, p.Session), p.Session
	if session == name {
		session = ""
	}
	for _, a := range slices.Backward(at.agents) {
		switch n := a.node; {
		case n.Name != name:
		case session == "" || n.Session == "" || n.Session == session:
			if n.Session == "" {
				n.Session = string([]byte(session))
			}
			return n
		default:
			above = a.above
		}
	}
	n := f.add(above, AgentNode, name, session)
	if n != nil {
		at.agents = append(at.agents, placed{n, above})
	}
	return n
}

// part returns the part of a node with that name, and makes it at its first event.
func (f *Forest) part(above *Node, kind, name, session string) *Node {
	for _, n := range above.parts {
		if n.Kind == kind && n.Name == name {
			return n
		}
	}
	return f.add(above, kind, name, session)
}

// add makes a part of a node; nil where there is no room.
func (f *Forest) add(above *Node, kind, name, session string) *Node {
	if !f.room() {
		return nil
	}
	n := &Node{Kind: kind, Name: string([]byte(name)), Session: string([]byte(session))}
	above.parts = append(above.parts, n)
	return n
}

// room takes the room of one more node.
func (f *Forest) room() bool {
	if f.nodes >= f.most {
		f.full = true
		return false
	}
	f.nodes++
	return true
}

// Flows returns the flows whose ids begin so.
func (f *Forest) Flows(begin string) (ids []string) {
	for id := range f.flows {
		if strings.HasPrefix(id, begin) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Tree returns what the flow and its descendants have spent; false for a flow that had no event. It
// takes the nodes out of the forest, so it is called once.
func (f *Forest) Tree(flow string) (Tree, bool) {
	root := f.flows[flow]
	if root == nil {
		return Tree{}, false
	}
	in := f.links.Below(flow)
	unpriced := NewUnpriced(math.MaxInt) // what flows have room for
	for key := range in {
		at, above := f.flows[key], f.links[key]
		if at != nil && at.unpriced != nil {
			unpriced.Plus(at.unpriced)
		}
		if key == flow || at == nil {
			continue
		}
		// A parent of which there is no event has no node, so the next one above it counts. Names in a
		// circle end at the flow.
		for steps := 0; f.flows[above] == nil && steps < len(in); steps++ {
			above = f.links[above]
		}
		parent := f.flows[above]
		if parent == nil || !in[above] {
			parent = root
		}
		parent.parts = append(parent.parts, &at.Node)
	}
	root.sum()
	t := Tree{Flow: flow, Truncated: f.full, Unpriced: unpriced.List()}
	if len(t.Unpriced) > 0 {
		t.Advice = Advice
	}
	t.list(&root.Node, -1, 0)
	return t, true
}

// list appends the node and its parts.
func (t *Tree) list(n *Node, parent, depth int) {
	n.Parent, n.Depth = parent, depth
	here := len(t.Nodes)
	t.Nodes = append(t.Nodes, n)
	for _, p := range n.parts {
		t.list(p, here, depth+1)
	}
}

// sum adds up the node and sorts its parts.
func (n *Node) sum() {
	n.All = n.Own
	for _, p := range n.parts {
		p.sum()
		n.All.Add(p.All)
	}
	slices.SortFunc(n.parts, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.All.Cost(), a.All.Cost()), cmp.Compare(b.All.Tokens, a.All.Tokens), cmp.Compare(b.All.Calls, a.All.Calls),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Session, b.Session))
	})
}
