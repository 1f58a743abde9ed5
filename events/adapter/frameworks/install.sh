#!/bin/sh
# Puts agent frameworks for Python and JavaScript into a folder, a virtual environment or a
# package each, in the versions that are current; all of them, or those that are named.
# What cannot be had is named, and its runs then say so.
# Needs Python from 3.11 on ($PYTHON) with venv and pip, and npm; the Node.js that the
# frameworks want comes from there, too.
set -u
dir=${1:?usage: install.sh FOLDER [NAME...]}
shift
only=" $* "
python=${PYTHON:-python3}
mkdir -p "$dir"

# pip tries releases one by one where the newest of several do not fit each other: it was seen to
# go on for an hour, and to give up where there is an answer.
if ! command -v uv >/dev/null; then
	[ -x "$dir/uv/bin/uv" ] || { "$python" -m venv "$dir/uv" && "$dir/uv/bin/pip" install -q --disable-pip-version-check uv; } || echo "*** NOT THERE: uv ***" >&2
	PATH=$(cd "$dir" && pwd)/uv/bin:$PATH
fi

is_there() { # name, packages
	case "$only" in "  " | *" $1 "*) ;; *) return 0 ;; esac
	name=$1
	shift
	echo "$*" | cmp -s - "$dir/$name/installed" && return
	rm -rf "${dir:?}/$name"
	return 1
}

framework() { # name, packages
	is_there "$@" && return
	name=$1
	shift
	uv venv -q --python "$python" "$dir/$name" && uv pip install -q --python "$dir/$name/bin/python" "$@"
	note $? "$name" "$@"
}

package() { # name, packages
	is_there "$@" && return
	name=$1
	shift
	mkdir -p "$dir/$name" && PATH=$dir/node/node_modules/$node/bin:$PATH \
		npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir/$name" "$@"
	note $? "$name" "$@"
}

note() { # exit code, name, packages
	code=$1 name=$2
	shift 2
	if [ "$code" = 0 ]; then
		echo "$*" >"$dir/$name/installed"
	else
		echo "*** NOT THERE: $name ($*) ***" >&2
	fi
}

otel="opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
framework ag2 $otel "ag2[openai]>=1"
framework agent_framework $otel agent-framework-core agent-framework-openai
framework agento11y $otel agento11y agento11y-langgraph langchain langgraph langchain-openai
framework agentscope $otel agentscope
framework agno $otel agno openai openinference-instrumentation-agno
framework autogen $otel autogen-agentchat "autogen-ext[openai]"
framework beeai $otel beeai-framework mcp openinference-instrumentation-beeai
framework camel $otel camel-ai "mcp<2" opentelemetry-instrumentation-openai
framework crewai $otel crewai openinference-instrumentation-crewai
framework dspy $otel dspy openinference-instrumentation-dspy
framework google_adk $otel "google-adk>=2"
framework haystack $otel haystack-ai opentelemetry-haystack openinference-instrumentation-haystack
framework griptape $otel griptape opentelemetry-instrumentation-threading opentelemetry-instrumentation-openai
framework langgraph $otel langchain langgraph langchain-openai opentelemetry-instrumentation-langchain openinference-instrumentation-langchain
framework langfuse $otel langfuse langchain langgraph langchain-openai
framework langsmith $otel "langsmith[otel]" langchain langgraph langchain-openai
framework langroid $otel langroid opentelemetry-instrumentation-openai openinference-instrumentation-openai
framework llama_index $otel llama-index-core llama-index-llms-openai-like openinference-instrumentation-llama-index
framework mcp_sdk $otel mcp
framework mlflow $otel mlflow langchain langgraph langchain-openai openai
framework openai_agents $otel openai-agents openinference-instrumentation-openai-agents
framework pydantic_ai $otel "pydantic-ai-slim[openai]" logfire
framework semantic_kernel $otel semantic-kernel
framework smolagents $otel "smolagents[openai]" openinference-instrumentation-smolagents
framework strands $otel "strands-agents[otel,openai]>=1.60"

node=node-linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
package node "$node@24"
# The SDK of the second generation: instrumentations do not know the third yet.
otel="@opentelemetry/sdk-trace-node@2 @opentelemetry/resources@2 @opentelemetry/exporter-trace-otlp-http@<0.300 @opentelemetry/otlp-transformer@<0.300 zod"
package ai_sdk $otel ai @ai-sdk/openai-compatible @ai-sdk/otel
package langgraph_js $otel langchain @langchain/core @langchain/langgraph @langchain/openai @arizeai/openinference-instrumentation-langchain @traceloop/instrumentation-langchain
package mastra $otel @mastra/core @mastra/observability @mastra/otel-exporter @ai-sdk/openai-compatible
package openai_agents_js $otel @openai/agents openai @arizeai/openinference-instrumentation-openai-agents
package genkit $otel genkit @genkit-ai/compat-oai
package strands_js $otel @strands-agents/sdk openai
package voltagent $otel @voltagent/core ai@6 @ai-sdk/openai-compatible@2
package adk_js $otel @opentelemetry/api@1.9.0 @google/adk
