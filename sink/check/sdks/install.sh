#!/bin/sh
# Puts the official clients of language models, of MCP and of A2A, the SDK of Grafana Agent Observability
# with its integrations, and the engine of n8n, into a folder: Python's into environments of their own, those
# of TypeScript beside them. What cannot be had is named, and its rows are then missing from the table.
set -u
dir=${1:?usage: install.sh FOLDER}
mkdir -p "$dir/node"
cd "$dir" || exit 1
[ -x python/bin/python ] || python3 -m venv python || exit 1
for package in openai==3.54.0 anthropic==2.12.0 google-genai==3.4.0 mcp==2.3.0 'a2a-sdk[http-server]==1.3.0' agento11y==0.21.0; do
	python/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
# The integrations want other versions of the clients.
[ -x agento11y/bin/python ] || python3 -m venv agento11y || exit 1
for package in agento11y==0.21.0 agento11y-langgraph==0.21.0 agento11y-openai-agents==0.21.0 agento11y-pydantic-ai==0.21.0 agento11y-litellm==0.21.0 agento11y-claude-agent-sdk==0.21.0 'litellm[proxy]'; do
	agento11y/bin/pip install --quiet --disable-pip-version-check "$package" || echo "*** NOT THERE: $package for Python" >&2
done
for package in openai@7.57.0 @anthropic-ai/sdk@1.12.0 @google/genai@3.1.0 @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 @a2a-js/sdk@1.3.0 typescript@5.9.3 n8n-core@2.41.1; do
	grep -q "\"version\": \"${package##*@}\"" "node/node_modules/${package%@*}/package.json" 2>/dev/null ||
		npm install --silent --no-audit --no-fund --ignore-scripts --omit=optional --prefix node "$package" || echo "*** NOT THERE: $package for TypeScript" >&2
done
