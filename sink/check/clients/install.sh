#!/bin/sh
# Puts the command-line agents of coding into a folder, each with the version that the
# hooks were tried with, and runs none of their install scripts. What cannot be had is
# named, and its tests then say so.
set -u
dir=${1:?usage: install.sh FOLDER [AGENT]} only=${2:-}
mkdir -p "$dir"

agent() { # name, packages
	name=$1
	shift
	[ -z "$only" ] || [ "$only" = "$name" ] || return 0
	echo "$*" | cmp -s - "$dir/$name/installed" && return
	rm -rf "${dir:?}/$name"
	mkdir -p "$dir/$name"
	if npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir/$name" "$@"; then
		echo "$*" >"$dir/$name/installed"
	else
		echo "*** NOT THERE: $name ($*) ***" >&2
	fi
}

agent claude-code @anthropic-ai/claude-code@2.1.197
agent codex @openai/codex@0.169.0
agent gemini-cli @google/gemini-cli@0.61.0
agent qwen-code @qwen-code/qwen-code@0.15.10
agent copilot-cli @github/copilot@1.0.102
agent cline cline@3.0.65
agent opencode opencode-ai@1.18.33
agent opencode-plugin @opencode-ai/plugin@1.18.33 # or OpenCode waits for the network at its start
