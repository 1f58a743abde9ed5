#!/bin/sh
# Installs the guards as packages, and the frameworks that they stand before, into a
# folder. What cannot be had is named, and its test then says so. WEIR_RELEASE names a folder of
# make release: its wheel and its npm package are installed then, and not the sources. With "recipes" as the
# second argument, what only other tests need is left out.
set -u
guards=$(cd "$(dirname "$0")/.." && pwd)
python_guard=$guards/python node_guard=$guards/typescript
[ -z "${WEIR_RELEASE:-}" ] || { python_guard=$(echo "$WEIR_RELEASE"/weir_guard-*.whl) node_guard=$(echo "$WEIR_RELEASE"/weir-guard-*.tgz); }
dir=${1:?usage: install.sh FOLDER}
mkdir -p "$dir/node"
cd "$dir" || exit 1
[ -x python/bin/python ] || python3 -m venv python || exit 1
for package in "$python_guard" langgraph langchain openai-agents pydantic-ai-slim openai strands-agents "ag2[openai]" google-adk mcp==2.3.0 "a2a-sdk[http-server]==1.3.0" uvicorn smolagents; do
	python/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
# The OpenAI Agents SDK and CrewAI want two versions of one library.
[ -x crewai/bin/python ] || python3 -m venv crewai
for package in "$python_guard" crewai; do
	crewai/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
# Tasks of MCP are in version 1 of its SDK alone.
[ -x mcptasks/bin/python ] || python3 -m venv mcptasks
for package in "$python_guard" mcp==1.30.0 uvicorn; do
	mcptasks/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
# AG-UI behind two frameworks, which want two versions of its protocol. No recipe needs them.
agui="agui agentframework"
[ "${2-}" != recipes ] || agui=""
for environment in $agui; do
	case $environment in
	agui) framework='pydantic-ai-slim[ag-ui]==2.68.0' ;;
	*) framework=agent-framework-ag-ui==1.7.0 ;;
	esac
	[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
	for package in "$python_guard" "$framework"; do
		"$environment/bin/pip" install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
	done
done
# An earlier installation of the same version of the guard is replaced.
for python in python crewai mcptasks $agui; do
	$python/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$python_guard" || true
done
for package in "$node_guard" ai@6 zod@4 langchain@1 @langchain/core@1; do
	npm install --silent --no-audit --no-fund --prefix node "$package" || echo "*** NOT THERE: $package for TypeScript" >&2
done
