#!/bin/sh
# Installs the guards as packages, and the frameworks that they stand before, into a
# folder. What cannot be had is named, and its test then says so.
set -u
guards=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:?usage: install.sh FOLDER}
mkdir -p "$dir/node"
cd "$dir" || exit 1
[ -x python/bin/python ] || python3 -m venv python || exit 1
for package in "$guards/python" langgraph langchain openai-agents pydantic-ai-slim openai strands-agents "ag2[openai]" google-adk mcp==2.3.0 "a2a-sdk[http-server]==1.3.0" uvicorn; do
	python/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
# The OpenAI Agents SDK and CrewAI want two versions of one library.
[ -x crewai/bin/python ] || python3 -m venv crewai
for package in "$guards/python" crewai; do
	crewai/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
# Tasks of MCP are in version 1 of its SDK alone.
[ -x mcptasks/bin/python ] || python3 -m venv mcptasks
for package in "$guards/python" mcp==1.30.0 uvicorn; do
	mcptasks/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
# An earlier installation of the same version of the guard is replaced.
for python in python crewai mcptasks; do
	$python/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$guards/python" || true
done
for package in "$guards/typescript" ai@6 zod@4; do
	npm install --silent --no-audit --no-fund --prefix node "$package" || echo "*** NOT THERE: $package for TypeScript" >&2
done
