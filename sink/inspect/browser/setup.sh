#!/bin/sh
# Sees to it that there is a browser and axe-core, the checker of accessibility, in the
# folder $1. What cannot be had is said loudly: its tests then fail or say so.
set -u
mkdir -p "$1"
if ! command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null && command -v apt-get >/dev/null; then
  as_root=
  [ "$(id -u)" = 0 ] || as_root="sudo -n"
  if $as_root true; then
    $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq chromium-headless-shell fonts-dejavu-core >/dev/null
  fi
fi
if [ ! -f "$1/axe.min.js" ] && command -v npm >/dev/null; then
  (cd "$1" && npm pack --silent axe-core@4.14.1 >/dev/null && tar xzf axe-core-4.14.1.tgz --strip-components=1 package/axe.min.js)
fi
[ -f "$1/axe.min.js" ] || echo "*** NOT CHECKED for accessibility: axe-core is missing, and npm did not fetch it ***" >&2
command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null || {
  echo "*** NOT TESTED in a browser: no Chromium; install the package chromium-headless-shell ***" >&2
  exit 1
}
