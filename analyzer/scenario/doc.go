// Package scenario runs .flow files: short scripts of agents' calls with the verdicts that weir must give. The rule
// book of this repository is written in it, and users write their own cases in it (weir test FILE...).
//
// # A file
//
// A file holds cases, apart by an empty line. A case is comment lines, of which the
// first is its title; settings, one to a line; events; a line of four dashes; and
// the whole outcome, line by line:
//
//	# a chain of six agents is one too deep
//	@1 1->2 ->3 ->4 ->5 ->6
//	----
//	#5 arm max_stack_depth_exceeded 5/5 flow
//	#6 deny max_stack_depth_exceeded 6/5 flow
//	stack=1,2,3,4,5,6 calls=5 agents=6
//	counts leaked=1
//
// # Settings
//
//	profile NAME       judge by this profile; without it, by what the runner is given
//	limits KEY: VALUE  one line of a limits file, as that file spells it
//	rule NAME: VALUE   one rule of a limits file, for example
//	                   rule repetition: {warn: 2, stop: 4}
//	step 100ms         the time from one event to the next; 1s when not said
//
// # Events
//
// Events are separated by spaces, on as many lines as one likes. The party that was called
// last, or that got an answer last, is in control, and may be left out where (a) is written.
//
//	@a      @a:text         a user calls a
//	(a)->b  a->b:text       a calls b
//	(a)=>b  a=>b:text       a answers b; a=>b?text with an error; a=> answers a user
//	(a)!t   a!t:args        a calls the tool t
//	        a!t:args=text   and gets this result: two events
//	        a!t:args?text   and gets this error
//	(a)<t:args=text         the result of a call that was made before, or ?text
//	(a)~                    a makes an output; no event: its next call reports it
//	(a)$                    a calls a model; see in, out and cost below
//	start end               the flow begins, ends
//	turn:2                  turn 2 begins
//	loop:t reflect:t        an iteration, a reflection of task t
//	stop:why release:why    an operator stops, releases the flow, for a reason or none
//	override:rule           an operator changes a rule; see warn, stop, extra, mode and for; of
//	                        rules about trees only extra is taken
//	a^active a^             a reports its status, or that it is there; see margin below
//	b^active->a             b reports, who took over from a
//	a#stuck#help:text       a leaves a note with these tags; a#stuck->b about b
//	rescue:b                help is asked for b; see by and admin
//	review:b                what the reviewer of b decided; see by and decision
//	ack:b                   the latest order about b is acknowledged; see by
//	dup dup:3               the last event, event 3, is delivered once more
//	+5m                     the next event comes 5 minutes after the last
//	( ... )*20              the same 20 times; {i} in names and texts counts from 1,
//	                        {j} counts the ( ... ) around that, {k} the next
//
// A question mark before a call (?a->b, ?a!t:args) makes it an ask: a call that is
// announced before it is sent. When it is refused it was not made.
//
// Texts never reach weir, only their hashes: two texts are the same or they are not.
// Without a text no hash is in the log. After text~g it is nearly the same as all
// texts with ~g (the fingerprints are equal), and text~g^13 differs from g's
// fingerprint in 13 bits. An error's text is its type as well, so ?429 and ?timeout
// are errors of the provider. Names are letters, digits, _ . / and -; anything else
// is quoted, as in Go. A name s@a is session s of agent a.
//
// Calls carry had_work, as a producer that knows would report it: yes when the caller
// used a tool or made an output since it was called, else no.
//
// Reports, notes, rescues, reviews and ack are about an agent and belong to no flow,
// unless their own brackets name one.
//
// # Fields
//
// Brackets after an event set fields of it; brackets that stand alone set them for
// all that follow. An empty value takes a field back.
//
//	flow=x           correlation id ("main" when not said; flow= for none)
//	corr=derived     where the correlation id comes from
//	source=s         the producer
//	turn= task= conv= project= memory= team= tenant= principal=
//	                 turn, task, conversation, project, memory trace, team, tenant, principal
//	ms=250           how long a tool or a model was at work, in milliseconds
//	account=day:x    of override:budget_exhausted: grants extra to the account x of the budget day; by= says
//	                 who grants it
//	root= parent=    the flow that the tree of this one begins with, the flow that opened it
//	origin=scheduler who set it off: user, agent, scheduler, applet, system
//	work=unknown     had_work: yes, no, unknown, or auto, which is the rule above
//	transfer=return_to_caller
//	                 how a call hands over: return_to_caller, pass_control
//	background       the caller does not wait for the agent that it calls
//	loops=3 depth=2  loop_count and delegation_depth as the caller reports them
//	in=9 out=9 total=9 cost=0.05 usage=cumulative
//	                 tokens and dollars; usage is delta, cumulative or aggregate
//	written_1h=9     of the tokens written into the cache those that it keeps an hour
//	cached=9 written=9 reasoning=9
//	                 tokens that the cache gave, that were written into it, that were thought
//	model=m provider=p
//	                 the model of these tokens; "limits prices: ..." prices it
//	late=30s         it happened 30 s before it is delivered
//	sampled=10       the event stands for ten
//	bytes=12         how long a result is; one of at most 200 may be alike by chance
//	effect=changed   what a call did: read, changed, rejected
//	state=x          the state that an edit left, by a text that stands for it
//	passed=3 failed=1 exit=1
//	                 figures of tests, and the exit code, of a result
//	beside           one message made the tool call with the call before it
//	status=denied    of a result: ok, error, denied, cancelled, timeout, input_required
//	retry            the tool call repeats its like legally
//	noid             the tool call has no call id
//	silent           the result came, and what it says is not in the log
//	refused          the call was not made: the dispatcher acknowledges that an order
//	                 refused it; refused=reason names the order, else the latest
//	warn= stop= extra= mode= for=
//	                 of override; for= also of stop and release
//	margin=tight health=moderate coherence=0.5 risk=0.2 void
//	                 of a report; void: the void is active
//	tags=a,b         tags of the flow, or of the agent that reports; from_tags= of who acts,
//	                 tool_tags= of the tool
//	by=c             the party that asks for a rescue, reviews, acknowledges
//	claimed          that a user said it is only the sender's claim
//	admin            of rescue: asked for by an administrator
//	decision=keep    of review: resume, keep or archive
//
// # Outcomes
//
// Verdicts stand in the order in which they were given, one to a line:
//
//	#6 deny max_stack_depth_exceeded 6/5 flow
//
// reads: at event 6 of the case calls were denied for this reason, the observed
// value being 6 and the limit 5, in the scope of the flow. The action is warn,
// throttle, deny, halt, or clear; arm when the order takes effect with the next
// call; with shadow- before it when the rule only watches. Scopes are flow,
// session:a, pair:a|b and task:t; another flow than main is named with "in". Orders
// about all flows of an agent, a project or a tree have the scopes agent:a, project:p and
// tree:root, and, about stuck agents, also the actions resume, review, archive and notify.
// A line that begins with a time, as in
//
//	+30m warn max_flow_duration_exceeded 1800/1800 flow
//
// was said by a deadline, so long after the start. The answer to an ask is
// "#4 ask allow" or "#4 ask deny ..." after the verdicts of that event. Silence of an
// agent is judged a little after its deadline, when all flows have reported what they know of
// it, so that an agent that speaks in that time was never called stuck; where a case
// ends, everything is known. The last lines are the state of each flow (Engine.Explain),
// of each agent that reports or of which anything was said, and, when there is anything to
// count, "counts" with duplicates, too_late, late, refused, attempts and leaked.
//
// An indented line below a verdict names one of its fields, as in JSON, and its
// value. Such lines are optional; what they name is compared:
//
//	#4 halt max_loops_exceeded 3/3 task:t
//	  message "Loop limit exceeded: 3 loops reached for task t"
//	  http_status 429
package scenario
