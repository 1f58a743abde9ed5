// Code generated from the tables of rules by go generate ./analyzer; DO NOT EDIT.

package events

// The reason codes.
const (
	CorrelationIDRequired   Reason = "correlation_id_required"
	SelfCall                Reason = "self_call"
	MaxStackDepth           Reason = "max_stack_depth_exceeded"
	MaxUniqueSessions       Reason = "max_unique_sessions_exceeded"
	MaxFlowDuration         Reason = "max_flow_duration_exceeded"
	CallRate                Reason = "call_rate_exceeded"
	MaxTotalCalls           Reason = "max_total_calls_exceeded"
	MaxRevisits             Reason = "max_revisits_exceeded"
	PingPong                Reason = "a2a_ping_pong"
	RepeatedDelegation      Reason = "repeated_delegation"
	StaleDelegation         Reason = "stale_delegation"
	NoWorkRapidFire         Reason = "no_work_rapid_fire"
	Repetition              Reason = "repetition_detected"
	Circling                Reason = "circling"
	ToolCycle               Reason = "tool_cycle_detected"
	RepeatedError           Reason = "repeated_error"
	NoProgress              Reason = "no_progress"
	MaxToolCalls            Reason = "max_tool_calls_exceeded"
	MaxTurns                Reason = "max_turns_exceeded"
	MaxChainDepth           Reason = "max_chain_depth_exceeded"
	MaxTokens               Reason = "max_tokens_exceeded"
	MaxCost                 Reason = "max_cost_exceeded"
	MaxConversationMessages Reason = "max_conversation_messages_exceeded"
	MaxLoops                Reason = "max_loops_exceeded"
	MaxReflectLoops         Reason = "max_reflect_loops_exceeded"
	MaxDelegationDepth      Reason = "max_delegation_depth_exceeded"
	OperatorStopped         Reason = "operator_stop"
	RefusalHammered         Reason = "refusal_hammered"
	MaxCallsPerAgent        Reason = "max_calls_per_agent_exceeded"
	HotPolling              Reason = "hot_polling"
	MaxContextTokens        Reason = "max_context_tokens_exceeded"
	ContextGrowth           Reason = "context_growth"
	MaxSpawnContextTokens   Reason = "max_spawn_context_tokens_exceeded"
	MaxSpawns               Reason = "max_spawns_exceeded"
	MaxBackgroundSpawns     Reason = "max_background_spawns_exceeded"
	MaxSubagentCalls        Reason = "max_subagent_calls_exceeded"
	MaxSubagentTokens       Reason = "max_subagent_tokens_exceeded"
	MaxSubagentDuration     Reason = "max_subagent_duration_exceeded"
	MaxSubagentCost         Reason = "max_subagent_cost_exceeded"
	ForecastExceedsBudget   Reason = "forecast_exceeds_budget"
	AgentMessageRate        Reason = "agent_message_rate_exceeded"
	MaxAgentMessages        Reason = "max_agent_messages_exceeded"
	MaxProjectMessages      Reason = "max_project_messages_exceeded"
	OrdersDefied            Reason = "orders_defied"
	CriticalMarginTimeout   Reason = "critical_margin_timeout"
	TightMarginTimeout      Reason = "tight_margin_timeout"
	ActivityTimeout         Reason = "activity_timeout"
	HealthTimeout           Reason = "health_timeout"
	CadenceBroken           Reason = "cadence_broken"
	RescueRequested         Reason = "rescue_requested"
	MaxTreeCalls            Reason = "max_tree_calls_exceeded"
	MaxTreeTokens           Reason = "max_tree_tokens_exceeded"
	MaxTreeCost             Reason = "max_tree_cost_exceeded"
	MaxTreeDuration         Reason = "max_tree_duration_exceeded"
	MaxTreeDepth            Reason = "max_tree_depth_exceeded"
	MaxTreeChildren         Reason = "max_tree_children_exceeded"
	BudgetExhausted         Reason = "budget_exhausted"
	RepeatedWakes           Reason = "repeated_wakes"
	MaxTreeSpawns           Reason = "max_tree_spawns_exceeded"
	RescueRefusedNotStuck   Reason = "rescue_refused_not_stuck"
	Allowed                 Reason = "allowed"
)

// reasons lists all reason codes. Their places are not permanent.
var reasons = [...]Reason{
	CorrelationIDRequired,
	SelfCall,
	MaxStackDepth,
	MaxUniqueSessions,
	MaxFlowDuration,
	CallRate,
	MaxTotalCalls,
	MaxRevisits,
	PingPong,
	RepeatedDelegation,
	StaleDelegation,
	NoWorkRapidFire,
	Repetition,
	Circling,
	ToolCycle,
	RepeatedError,
	NoProgress,
	MaxToolCalls,
	MaxTurns,
	MaxChainDepth,
	MaxTokens,
	MaxCost,
	MaxConversationMessages,
	MaxLoops,
	MaxReflectLoops,
	MaxDelegationDepth,
	OperatorStopped,
	RefusalHammered,
	MaxCallsPerAgent,
	HotPolling,
	MaxContextTokens,
	ContextGrowth,
	MaxSpawnContextTokens,
	MaxSpawns,
	MaxBackgroundSpawns,
	MaxSubagentCalls,
	MaxSubagentTokens,
	MaxSubagentDuration,
	MaxSubagentCost,
	ForecastExceedsBudget,
	AgentMessageRate,
	MaxAgentMessages,
	MaxProjectMessages,
	OrdersDefied,
	CriticalMarginTimeout,
	TightMarginTimeout,
	ActivityTimeout,
	HealthTimeout,
	CadenceBroken,
	RescueRequested,
	MaxTreeCalls,
	MaxTreeTokens,
	MaxTreeCost,
	MaxTreeDuration,
	MaxTreeDepth,
	MaxTreeChildren,
	BudgetExhausted,
	RepeatedWakes,
	MaxTreeSpawns,
	RescueRefusedNotStuck,
	Allowed,
}
