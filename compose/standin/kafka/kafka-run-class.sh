#!/usr/bin/env bash
# Fast starts matter more here than peak throughput: small collector, only the fast compiler.
exec java ${KAFKA_HEAP_OPTS:--Xmx512m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true $KAFKA_LOG4J_OPTS \
    -cp '/opt/kafka/libs/*' "$@"
