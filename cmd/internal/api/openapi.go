package api

import (
	"net/http"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/pump"
	"weir/schemas"
	"weir/sink/check"
)

// OpenAPIPath is the route of the description of this API.
const OpenAPIPath = "/openapi.json"

// serveOpenAPI sends the description as it is in the repository. It says nothing of this weir, so
// it is public.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(schemas.OpenAPI()) // an error means that the other side is gone
	return nil
}

// Bodies are what requests and answers hold, by their names in the description, which is made of
// these types.
func Bodies() map[string]any {
	return map[string]any{
		"Accepted": intakeAnswer{}, "EvaluateAnswer": check.EvaluateAnswer{}, "FlowList": pump.FlowList{}, "Flow": analyzer.View{}, "Limits": LimitsAnswer{}, "DeadLetters": deadLettersAnswer{}, "Costs": costs.Report{}, "FlowCosts": costs.Tree{},
		"AgentList": pump.AgentList{}, "Agent": agents.View{}, "NoteList": pump.NoteList{}, "HealthCheck": HealthCheck{}, "Health": healthAnswer{}, "Ready": readyAnswer{}, "Reloaded": reloadAnswer{},
		"Order": OperatorOrder{}, "OrderGiven": OperatorAnswer{}, "Grant": GrantOrder{}, "Granted": GrantAnswer{}, "LimitOverride": OverrideOrder{},
		"StopAll": StopAll{}, "AllStopped": StopAllAnswer{}, "HandOrder": HandOrder{}, "HandOrderView": HandOrderView{}, "HandOrderList": HandOrderList{}, "HandRelease": HandRelease{}, "HandLink": HandLink{}, "HandLinkMade": HandLinkAnswer{},
		"Whoami": Whoami{}, "BudgetList": pump.BudgetList{}, "BudgetGrant": BudgetGrant{}, "BudgetGranted": BudgetGrantAnswer{},
		"Receipt": orders.Receipt{}, "GuardBeat": orders.Beat{}, "GuardAnswer": orders.Answer{}, "OrderProposal": OrderProposal{}, "OrderProposalList": OrderProposalList{}, "ApprovalList": ApprovalList{}, "OrderDrill": OrderDrill{}, "DrillReport": orders.DrillReport{},
		"Rescue": RescueOrder{}, "Note": NoteOrder{}, "AgentOrderGiven": AgentAnswer{}, "Mark": MarkOrder{}, "Marked": backtest.Mark{},
	}
}
