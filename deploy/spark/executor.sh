#!/bin/sh
# Starts a Spark executor in its pod on Kubernetes. Spark passes all parameters in the environment, and each
# Java option in a SPARK_JAVA_OPT_n.
set -eu
options=$(env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p')
home=$(python -c 'import pyspark; print(pyspark.__path__[0])')
export SPARK_HOME="$home"
IFS='
'
set -f
# shellcheck disable=SC2086  # one option per line
exec java $options -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "$home/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
