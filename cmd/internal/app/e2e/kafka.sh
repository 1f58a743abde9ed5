#!/usr/bin/env bash
# Apache Kafka 4 (one KRaft node) from the jars of Maven: no distribution archive and
# no container. It listens on 127.0.0.1 only.
#
#   kafka.sh jars                fetch the jars into the user's cache, once, and print their folder
#   kafka.sh start DIR PORT      start a broker in the background, return when it serves
#   kafka.sh stop DIR            stop that broker by its process id
#   kafka.sh streams             fetch Kafka Streams as well, and print the folder of its jars
#
# DIR keeps topics, offsets and logs, so a second start goes on with them. The controller
# listens on PORT+1. With KAFKA_AUTH=yes at the first start of a DIR there are two more
# listeners for the user "weir" with the password "weir-secret" (PLAIN, SCRAM-SHA-256,
# SCRAM-SHA-512): PORT+2 in the clear and PORT+3 by TLS, whose authority is DIR/ca.pem. They
# also take OAUTHBEARER: PORT+2 tokens without a signature, PORT+3 tokens signed by a key
# of KAFKA_JWKS (a file) for the audience "weir-test". Their
# sessions end after KAFKA_REAUTH milliseconds (0: never). With KAFKA_ACLS=yes they may do
# what ACLs allow; PORT may do everything.
#
# Environment: KAFKA_VERSION (4.1.1), KAFKA_HEAP (512m), KAFKA_JARS (where the jars are
# kept), MVN (mvn), MVN_FLAGS, JAVA (java). Maven uses the repositories that it is
# configured for.
set -euo pipefail

version=${KAFKA_VERSION:-4.1.1}
java=${JAVA:-java} mvn=${MVN:-mvn}
libs=${KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/kafka-$version}

say() { echo "kafka.sh: $*" >&2; }
die() { say "$*"; exit 1; }
usage() { sed -n '5,8s/^# *//p' "$0" >&2; exit 2; }

need_java() {
  command -v "$java" >/dev/null || die "no java: install a JDK, 17 or newer (Debian: apt-get install openjdk-17-jdk-headless), or set JAVA"
  local major
  major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
  [ "${major:-0}" -ge 17 ] || die "java is version '${major:-unknown}': Kafka $version needs 17 or newer; set JAVA"
}

# Maven resolves what is needed at run time into a folder that is renamed when it is
# complete: a fetch that was interrupted leaves nothing that looks whole.
jars() { fetch "$libs" "" && echo "$libs"; }

# The broker's jars have a JSON parser that a program on Kafka Streams can use.
streams() { fetch "$libs-streams" "$(dependency org.apache.kafka kafka-streams "$version")" && echo "$libs-streams"; }

dependency() { echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"; }

fetch() { # folder, further dependencies
  [ -d "$1" ] && return
  command -v "$mvn" >/dev/null || die "no Maven, and no jars in $1: install it (Debian: apt-get install maven), or set MVN or KAFKA_JARS"
  mkdir -p "$(dirname "$1")"
  exec 9>"$1.lock"
  flock 9 # two starts at a time fetch once
  [ -d "$1" ] && return
  local work=$1.part
  rm -rf "$work"
  mkdir -p "$work/jars"
  say "fetching Kafka $version by Maven into $1"
  resolve "$work" "$2"
  # The module names a logging front end and no back end: take the same version's own.
  local api
  api=$(find "$work/jars" -name 'slf4j-api-*.jar' | sed 's/.*slf4j-api-\(.*\)\.jar/\1/')
  [ -n "$api" ] || die "kafka_2.13:$version came without slf4j-api: look into $work/jars"
  resolve "$work" "$2$(dependency org.slf4j slf4j-simple "$api")"
  mv "$work/jars" "$1"
  rm -rf "$work"
  flock -u 9
}

resolve() { # folder, further dependency
  cat >"$1/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka-node</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
    $2
  </dependencies>
</project>
POM
  # shellcheck disable=SC2086 # flags are words
  "$mvn" -B -q -Dstyle.color=never ${MVN_FLAGS:-} -f "$1/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$1/jars" >&2 ||
    die "Maven could not fetch Kafka $version: see above; a mirror is set in settings.xml, or by MVN_FLAGS"
}

properties() { # folder, port
  local dir=$1 port=$2
  local listeners="PLAINTEXT://127.0.0.1:$port"
  [ ! -e "$dir/ca.pem" ] || listeners+=",SASL_PLAINTEXT://127.0.0.1:$((port + 2)),SASL_SSL://127.0.0.1:$((port + 3))"
  cat <<CONF
process.roles=broker,controller
node.id=1
listeners=$listeners,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=$listeners,CONTROLLER://127.0.0.1:$((port + 1))
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:$((port + 1))
log.dirs=$dir/data
auto.create.topics.enable=false
# One node: internal topics have one replica and few partitions.
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# Tests wait for no first join and try short sessions.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.dedupe.buffer.size=16777216
CONF
  [ -e "$dir/ca.pem" ] || return 0
  cat <<CONF
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
ssl.keystore.location=$dir/server.p12
ssl.keystore.password=weir-secret
ssl.keystore.type=PKCS12
CONF
  local listener mechanism
  for listener in sasl_plaintext sasl_ssl; do
    echo "listener.name.$listener.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_weir=\"weir-secret\";"
    for mechanism in scram-sha-256 scram-sha-512; do
      echo "listener.name.$listener.$mechanism.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;"
    done
    echo "listener.name.$listener.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";"
  done
  [ "${KAFKA_ACLS:-no}" = no ] || cat <<CONF
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
CONF
  [ -n "${KAFKA_JWKS:-}" ] || return 0
  cat <<CONF
listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
# As settings of a listener these check no signature in Kafka 4.1.
sasl.oauthbearer.jwks.endpoint.url=file://$KAFKA_JWKS
sasl.oauthbearer.expected.audience=weir-test
sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator
listener.name.sasl_ssl.oauthbearer.connections.max.reauth.ms=${KAFKA_REAUTH:-0}
CONF
}

certificate() { # folder
  command -v keytool >/dev/null || die "KAFKA_AUTH needs keytool, which comes with a JDK"
  keytool -genkeypair -alias broker -keyalg EC -groupname secp256r1 -validity 30 -dname CN=127.0.0.1 -ext san=ip:127.0.0.1,dns:localhost -ext bc=ca:true \
    -storetype PKCS12 -keystore "$1/server.p12" -storepass weir-secret 2>/dev/null
  keytool -exportcert -rfc -alias broker -keystore "$1/server.p12" -storepass weir-secret >"$1/ca.pem" 2>/dev/null
}

storage() { "$java" -Xmx128m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$libs/*" kafka.tools.StorageTool "$@"; }

# The command line is asked for, since the number may belong to another process by now,
# or to one that is dead and that nobody has waited for.
alive() { [ -e "$1/pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$(cat "$1/pid")/cmdline" | grep -qF "$1/server.properties"; }

start() { # folder, port
  need_java
  jars
  mkdir -p "$1"
  local dir port=$2
  dir=$(cd "$1" && pwd)
  local killed=$((SECONDS + 3)) # one that was killed a moment ago takes its time to go
  while alive "$dir"; do
    [ $SECONDS -lt $killed ] || die "a broker of $dir runs already, process $(cat "$dir/pid")"
    sleep 0.05
  done
  if [ ! -e "$dir/data/meta.properties" ]; then
    [ "${KAFKA_AUTH:-no}" = no ] || certificate "$dir"
    properties "$dir" "$port" >"$dir/server.properties"
    local users=()
    [ ! -e "$dir/ca.pem" ] || users=(--add-scram 'SCRAM-SHA-256=[name=weir,password=weir-secret]' --add-scram 'SCRAM-SHA-512=[name=weir,password=weir-secret]')
    storage format --standalone -t "$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | cut -c1-22)" -c "$dir/server.properties" "${users[@]}" >"$dir/format.log" 2>&1 ||
      { cat "$dir/format.log" >&2; die "cannot format $dir/data"; }
  fi
  properties "$dir" "$port" >"$dir/server.properties"
  local heap=${KAFKA_HEAP:-512m}
  # What the last start has said must not be taken for what this one says.
  [ ! -e "$dir/broker.log" ] || mv "$dir/broker.log" "$dir/broker.log.before"
  nohup "$java" -Xms"$heap" -Xmx"$heap" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -Djava.awt.headless=true \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info \
    -Dorg.slf4j.simpleLogger.showDateTime=true -Dkafka.logs.dir="$dir/logs" \
    -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="file://${KAFKA_JWKS:-}" -Dorg.apache.kafka.sasl.oauthbearer.allowed.files="${KAFKA_JWKS:-}" \
    -cp "$libs/*" kafka.Kafka "$dir/server.properties" >"$dir/broker.log" 2>&1 </dev/null &
  local pid=$!
  echo $pid >"$dir/pid"
  # A broker that was killed is let in again only when its old session has ended: that
  # takes some 15 s, and until then it is not "started".
  local deadline=$((SECONDS + 240))
  until grep -qs 'Kafka Server started' "$dir/broker.log"; do
    kill -0 $pid 2>/dev/null || { tail -5 "$dir/broker.log" >&2; die "the broker ended: $dir/broker.log"; }
    [ $SECONDS -lt $deadline ] || { stop "$dir"; die "the broker does not serve after 240 s: $dir/broker.log"; }
    sleep 0.1
  done
  say "Kafka $version serves 127.0.0.1:$port, process $pid, data in $dir"
}

stop() { # folder
  [ -d "$1" ] || return 0
  set -- "$(cd "$1" && pwd)"
  alive "$1" || { rm -f "$1/pid"; return 0; }
  local pid deadline=$((SECONDS + 20))
  pid=$(cat "$1/pid")
  kill "$pid"
  while alive "$1"; do
    [ $SECONDS -lt $deadline ] || { say "process $pid does not end in order: killed"; kill -9 "$pid"; break; }
    sleep 0.1
  done
  rm -f "$1/pid"
}

case ${1:-} in
jars) need_java && jars ;;
start) [ $# -eq 3 ] || usage; start "$2" "$3" ;;
stop) [ $# -eq 2 ] || usage; stop "$2" ;;
streams) need_java && streams ;;
*) usage ;;
esac
