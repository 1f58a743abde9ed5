package adapter_test

import (
	"testing"

	"weir/events/adapter/autogen"
	"weir/events/adapter/crewai"
	"weir/events/adapter/langfuse"
	"weir/events/adapter/langsmith"
	"weir/events/adapter/litellm"
	"weir/events/adapter/openaiagents"
	"weir/events/adapter/phoenix"
	"weir/events/adapter/spanjson"
)

func FuzzOpenAIAgents(f *testing.F) { fuzz(f, openaiagents.Format()) }
func FuzzLangSmith(f *testing.F)    { fuzz(f, langsmith.Format()) }
func FuzzCrewAI(f *testing.F)       { fuzz(f, crewai.Format()) }
func FuzzAutoGen(f *testing.F)      { fuzz(f, autogen.Format()) }
func FuzzLangfuse(f *testing.F)     { fuzz(f, langfuse.Format()) }
func FuzzPhoenix(f *testing.F)      { fuzz(f, phoenix.Format()) }
func FuzzLiteLLM(f *testing.F)      { fuzz(f, litellm.Format()) }
func FuzzSpanJSON(f *testing.F)     { fuzz(f, spanjson.Format()) }
