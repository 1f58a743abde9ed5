package adapter_test

import (
	"testing"

	"weir/events/adapter/autogen"
	"weir/events/adapter/crewai"
	"weir/events/adapter/langsmith"
	"weir/events/adapter/openaiagents"
)

func FuzzOpenAIAgents(f *testing.F) { fuzz(f, openaiagents.Format()) }
func FuzzLangSmith(f *testing.F)    { fuzz(f, langsmith.Format()) }
func FuzzCrewAI(f *testing.F)       { fuzz(f, crewai.Format()) }
func FuzzAutoGen(f *testing.F)      { fuzz(f, autogen.Format()) }
