#!/usr/bin/env bash
# Short starts matter more here than peak throughput: small collector, only the quick compiler.
exec java ${KAFKA_HEAP_OPTS:--Xmx512m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true $KAFKA_LOG4J_OPTS \
    -cp '/opt/kafka/libs/*' "$@"
