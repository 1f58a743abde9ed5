// Package otlp sends verdicts as OpenTelemetry log events over HTTP. An event has the trace and the span of the call
// that it is about, so that a view of traces shows who ended a run, and why (gen_ai.agent.finish_reason) and how
// (gen_ai.agent.invocation.status). It promises that what it says is delivered was taken, and counts what is refused.
package otlp
