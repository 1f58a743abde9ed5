#!/bin/sh
# Puts agent frameworks for Python into a folder, a virtual environment each, in the
# versions that are current. What cannot be had is named, and its runs then say so.
# Needs Python from 3.11 on ($PYTHON); uses uv where it is found, else venv and pip.
set -u
dir=${1:?usage: install.sh FOLDER}
python=${PYTHON:-python3}
mkdir -p "$dir"

framework() { # name, packages
	name=$1
	shift
	echo "$*" | cmp -s - "$dir/$name/installed" && return
	rm -rf "${dir:?}/$name"
	if command -v uv >/dev/null; then
		uv venv -q --python "$python" "$dir/$name" && uv pip install -q --python "$dir/$name/bin/python" "$@"
	else
		"$python" -m venv "$dir/$name" && "$dir/$name/bin/pip" install -q --disable-pip-version-check "$@"
	fi
	if [ $? = 0 ]; then
		echo "$*" >"$dir/$name/installed"
	else
		echo "*** NOT THERE: $name ($*) ***" >&2
	fi
}

otel="opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
framework ag2 $otel "ag2[openai]>=1"
framework agent_framework $otel agent-framework-core agent-framework-openai
framework agento11y $otel agento11y agento11y-langgraph langchain langgraph langchain-openai
framework agno $otel agno openai openinference-instrumentation-agno
framework autogen $otel autogen-agentchat "autogen-ext[openai]"
framework beeai $otel beeai-framework mcp openinference-instrumentation-beeai
framework camel $otel camel-ai opentelemetry-instrumentation-openai
framework crewai $otel crewai openinference-instrumentation-crewai
framework dspy $otel dspy openinference-instrumentation-dspy
framework google_adk $otel "google-adk>=2"
framework haystack $otel haystack-ai opentelemetry-haystack openinference-instrumentation-haystack
framework griptape $otel griptape opentelemetry-instrumentation-threading opentelemetry-instrumentation-openai
framework langgraph $otel langchain langgraph langchain-openai opentelemetry-instrumentation-langchain openinference-instrumentation-langchain
framework langfuse $otel langfuse langchain langgraph langchain-openai
framework langroid $otel langroid opentelemetry-instrumentation-openai openinference-instrumentation-openai
framework llama_index $otel llama-index-core llama-index-llms-openai-like openinference-instrumentation-llama-index
framework mcp_sdk $otel mcp
framework openai_agents $otel openai-agents openinference-instrumentation-openai-agents
framework pydantic_ai $otel "pydantic-ai-slim[openai]" logfire
framework semantic_kernel $otel semantic-kernel
framework smolagents $otel "smolagents[openai]" openinference-instrumentation-smolagents
framework strands $otel "strands-agents[otel,openai]>=1.60"
