#!/bin/sh
# A Spark executor on Kubernetes. Spark starts the image with the single argument `executor` and passes everything else in the
# environment, so this file is that command inside the image.
set -eu

jars=$(python -c 'import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), "jars"))')

# JVM options are numbered from 0; each may contain spaces.
set --
number=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$number+set}\" ]"; do
    eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
    number=$((number + 1))
done

exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -classpath "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
