# Starts a Kafka broker of its own, lists its topics, stops it, and so leaves an archive of the
# classes that both have loaded: class_archive.sh LIBS ARCHIVE. The tests start hundreds of JVMs
# with this archive, each in about half the processor time.
set -e
libs=$1 archive=$2
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
set -- $(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in sockets))')
broker=127.0.0.1:$1 controller=127.0.0.1:$2
cat > "$home/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@$controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://$broker,CONTROLLER://$controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$home/data
END
java() { command java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "$@"; }
java -cp "$libs/*" kafka.tools.StorageTool format --cluster-id bGV2YWRhLXRlc3RzLTAwMA \
    --config "$home/server.properties" > "$home/format.log" 2>&1
command java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$libs/*" \
    -XX:ArchiveClassesAtExit="$archive.new" kafka.Kafka "$home/server.properties" \
    > "$home/kafka.log" 2>&1 &
kafka=$!
# The tool waits for the broker; its own classes are nearly all among those of the broker.
listed=0
java -cp "$libs/*" org.apache.kafka.tools.TopicCommand --bootstrap-server "$broker" --list \
    > "$home/tool.log" 2>&1 || listed=1
kill -TERM "$kafka"
wait "$kafka" || true
[ "$listed" = 0 ] || { tail -3 "$home/tool.log"; exit 1; }
mv "$archive.new" "$archive"
