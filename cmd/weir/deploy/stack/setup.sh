#!/usr/bin/env bash
# Puts into the folder $1 what `make stack` needs, and installs nothing: Docker's Engine from
# Debian's packages, Docker Compose from its Go module, and the files of images that no
# registry is asked for. What is missing is said, and then it fails.
set -euo pipefail
mkdir -p "$1"
dir=$(cd "$1" && pwd)
# There will be Go's own sources in it: a module of their own, which "./..." leaves out.
[ -e "$dir/go.mod" ] || echo "module stack" >"$dir/go.mod"
repo=$(cd "$(dirname "$0")/../../../.." && pwd)
go=${GO:-go}

say() { echo "stack: $*" >&2; }
cannot() { say "*** NOT TRIED: the stack of docker-compose.yml: $* ***"; exit 1; }

[ "$(uname -s)" = Linux ] || cannot "it needs Linux"
[ "$(id -u)" = 0 ] || cannot "it needs root, for a network and mounts of its own"
for command in apt-get dpkg-deb ip unshare jlink ldd git; do
  command -v $command >/dev/null || cannot "there is no $command (Debian: iproute2, util-linux, openjdk-17-jdk-headless)"
done
unshare --net --mount --pid --fork ip link add weir0 type veth peer name weir1 2>/dev/null || cannot "no network of its own can be made here"

# Packages are unpacked and not installed. Libraries that the system lacks come with them.
debian() { # folder, packages
  local into=$1
  shift
  [ -e "$into" ] && return
  rm -rf "$into.part"
  mkdir -p "$into.part/debs"
  (cd "$into.part/debs" && apt-get -qq download "$@" >/dev/null 2>&1) || cannot "apt-get did not bring $* (apt-get update may help)"
  for deb in "$into.part"/debs/*.deb; do dpkg-deb -x "$deb" "$into.part"; done
  rm -rf "$into.part/debs"
  mv "$into.part" "$into"
}

engine() {
  debian "$dir/engine" docker.io containerd runc tini iptables libip4tc2 libip6tc2 libxtables12 libmnl0 libnetfilter-conntrack3 libnfnetlink0 libnftnl11 libdevmapper1.02.1
  for name in iptables ip6tables; do # which an installation would link
    for verb in "" -save -restore; do ln -sf "$name-nft$verb" "$dir/engine/usr/sbin/$name$verb"; done
  done
}

compose() {
  mkdir -p "$dir/client/cli-plugins"
  local tools=cmd/internal/tools/compose/go.mod version
  version=$(sed -n 's#.*github.com/docker/compose/v2 v\([^ ]*\).*#\1#p' "$repo/$tools")
  (cd "$repo" && $go build -modfile=$tools -trimpath -ldflags="-X github.com/docker/compose/v2/internal.Version=$version" -o "$dir/client/cli-plugins/docker-compose" github.com/docker/compose/v2/cmd) ||
    cannot "Docker Compose could not be built from its module"
}

# A system of one program with many names, and the authorities that the image copies.
base() { # folder
  rm -rf "$1"
  mkdir -p "$1"/{bin,tmp,root,proc,dev,sys,etc/ssl/certs,var,usr}
  chmod 1777 "$1/tmp"
  cp "$dir/busybox/bin/busybox" "$1/bin/"
  for name in $("$1/bin/busybox" --list); do [ "$name" = busybox ] || ln -sf busybox "$1/bin/$name"; done
  cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$1/etc/passwd"
  printf 'root:x:0:\nnobody:x:65534:\n' >"$1/etc/group"
}

# Copies the libraries of programs into a system, where the programs look for them.
libraries() { # folder, programs
  local into=$1 lib
  shift
  for lib in $(ldd "$@" 2>/dev/null | grep -o '/[^ :]*\.so[^ :]*' | sort -u); do
    case $lib in "$into"*) ;; *) mkdir -p "$into$(dirname "$lib")" && cp -L "$lib" "$into$lib" ;; esac
  done
}

done_with() { # name: packs the system of an image
  tar -C "$dir/images/$1" -cf "$dir/images/$1.tar.part" .
  mv "$dir/images/$1.tar.part" "$dir/images/$1.tar"
  rm -rf "$dir/images/$1"
}

# This machine's Go. Containers reach no network, so it brings the modules of go.mod along.
golang() {
  local image=$dir/images/golang
  base "$image"
  mkdir -p "$image"/{usr/local,go,modules}
  cp -a "$($go env GOROOT)" "$image/usr/local/go"
  (cd "$repo" && GOMODCACHE=$dir/modules GOFLAGS=-modcacherw GOPROXY="file://$($go env GOMODCACHE)/cache/download,$($go env GOPROXY)" $go mod download) ||
    cannot "the modules of go.mod could not be had"
  cp -a "$dir/modules/cache/download/." "$image/modules/"
  done_with golang
}

# Apache Kafka's jars, and its own reader of the variables KAFKA_*, on a small Java.
kafka() {
  local image=$dir/images/kafka opt=/opt/kafka jars tools=$dir/kafka-tools
  jars=$("$repo/cmd/internal/app/e2e/kafka.sh" jars) || cannot "no Kafka"
  local version
  version=$(basename "$(ls "$jars"/kafka_2.13-*.jar)" .jar)
  version=${version#kafka_2.13-}
  if [ ! -d "$tools" ]; then # what asks the broker whether it is well
    rm -rf "$tools.part"
    "${MVN:-mvn}" -B -q ${MVN_FLAGS:-} org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
      -Dartifact="org.apache.kafka:kafka-tools:$version" -DoutputDirectory="$tools.part" >&2 || cannot "Maven did not bring kafka-tools"
    mv "$tools.part" "$tools"
  fi
  base "$image"
  mkdir -p "$image$opt"/{bin,libs,config} "$image"/{etc/kafka/docker,var/lib/kafka/data,mnt/shared/config}
  jlink --add-modules java.se,jdk.unsupported,jdk.management,jdk.crypto.ec --strip-java-debug-attributes --no-header-files --no-man-pages --output "$image/opt/java"
  find "$image/opt/java" \( -name '*.so' -o -name java \) -type f -print0 | while IFS= read -r -d '' file; do libraries "$image" "$file"; done
  ln -s /opt/java/bin/java "$image/bin/java"
  cp "$jars"/*.jar "$tools"/*.jar "$image$opt/libs/"
  : >"$image/etc/kafka/docker/server.properties"
  printf 'Configuration:\n  Appenders: {}\n  Loggers: {}\n' | tee "$image"/etc/kafka/docker/{log4j2,tools-log4j2}.yaml >/dev/null
  cat >"$image$opt/bin/kafka-broker-api-versions.sh" <<'S'
#!/bin/sh
exec java -Xmx64m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp '/opt/kafka/libs/*' org.apache.kafka.tools.BrokerApiVersionsCommand "$@"
S
  cat >"$image/etc/kafka/docker/run" <<'S'
#!/bin/sh
export CLUSTER_ID=5L6g3nShT-eMCtK--X86sw
said=$(java -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' kafka.docker.KafkaDockerWrapper setup \
  --default-configs-dir /etc/kafka/docker --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config 2>&1) ||
  echo "$said" | grep -i 'already formatted' || { echo "$said"; exit 1; } # as the image does
exec java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '/opt/kafka/libs/*' kafka.Kafka /opt/kafka/config/server.properties
S
  chmod +x "$image/etc/kafka/docker/run" "$image$opt"/bin/*.sh
  chown -R 1000:1000 "$image$opt" "$image/var/lib/kafka" "$image/etc/kafka" "$image/mnt/shared"
  done_with kafka
}

prometheus() {
  local image=$dir/images/prometheus from
  from=$("$repo/sink/prom/prometheus/get.sh") || cannot "no Prometheus"
  base "$image"
  mkdir -p "$image"/{etc/prometheus,prometheus}
  cp "$from/prometheus" "$image/bin/"
  libraries "$image" "$from/prometheus"
  chown 65534:65534 "$image/prometheus"
  done_with prometheus
}

# No Grafana is to be had: a web server says that it is well when its mounts are there and it
# may read its password.
grafana() {
  local image=$dir/images/grafana
  base "$image"
  mkdir -p "$image"/{www/api,var/lib/grafana}
  echo '{"database":"ok"}' >"$image/www/api/health"
  cat >"$image/run.sh" <<'S'
#!/bin/sh
[ -s "$GF_SECURITY_ADMIN_PASSWORD__FILE" ] && cat "$GF_SECURITY_ADMIN_PASSWORD__FILE" /etc/grafana/provisioning/*/*.y*ml /var/lib/grafana/dashboards/*.json >/dev/null || exit 1
exec httpd -f -p 3000 -h /www
S
  chmod +x "$image/run.sh"
  chown 472:0 "$image/var/lib/grafana"
  done_with grafana
}

engine
debian "$dir/busybox" busybox-static
mkdir -p "$dir/images"
for image in golang kafka prometheus grafana; do
  # What an image is made of changes with go.mod and with this file.
  if [ ! -e "$dir/images/$image.tar" ] || [ "$0" -nt "$dir/images/$image.tar" ] || [ "$repo/go.mod" -nt "$dir/images/$image.tar" ]; then
    say "image for $image"
    $image
  fi
done
compose
