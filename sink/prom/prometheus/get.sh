#!/bin/sh
# Prints the folder that holds prometheus and promtool. They are taken from the PATH, or
# else from Debian's package, which is unpacked into the user's cache and not installed.
set -eu

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
	dirname "$(command -v promtool)"
	exit
fi
cache=${XDG_CACHE_HOME:-${HOME:-${TMPDIR:-/tmp}}/.cache}/weir
if [ ! -x "$cache/prometheus/promtool" ]; then
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
		echo "prometheus and promtool are missing, and this is not Debian: put them into the PATH" >&2
		exit 1
	}
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/get.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	if ! apt-get download prometheus >log 2>&1; then
		# The lists of packages may be missing, and not everybody may write them.
		mkdir -p lists/partial archives/partial
		own="-o Dir::State::Lists=$work/lists -o Dir::Cache=$work -o Debug::NoLocking=1"
		# shellcheck disable=SC2086 # these are words
		{ apt-get $own update && apt-get $own download prometheus; } >log 2>&1 || {
			cat log >&2
			exit 1
		}
	fi
	dpkg-deb -x prometheus_*.deb unpacked
	# Another run may have been faster.
	mv -T unpacked/usr/bin "$cache/prometheus" 2>/dev/null || [ -x "$cache/prometheus/promtool" ]
fi
echo "$cache/prometheus"
