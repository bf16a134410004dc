# Stands in for apache/kafka: the same paths, the same KAFKA_* variables, read by Kafka's own KafkaDockerWrapper.
# Context: jars/ (the broker's jars), run, kafka-run-class.sh, server.properties, log4j2.yaml.
ARG BASE=standin/base:trixie
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-21-jre-headless && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && useradd --uid 1000 --create-home --home-dir /home/appuser appuser \
 && mkdir -p /opt/kafka/config /var/lib/kafka/data /mnt/shared/config \
 && chown -R appuser:appuser /opt/kafka /var/lib/kafka /mnt/shared
COPY jars/ /opt/kafka/libs/
COPY kafka-run-class.sh /opt/kafka/bin/
COPY run server.properties log4j2.yaml /etc/kafka/docker/
RUN chmod 755 /etc/kafka/docker/run /opt/kafka/bin/kafka-run-class.sh \
 && cp /etc/kafka/docker/log4j2.yaml /etc/kafka/docker/tools-log4j2.yaml
ENV PATH=/opt/kafka/bin:$PATH
USER appuser
WORKDIR /tmp
EXPOSE 9092
VOLUME ["/var/lib/kafka/data", "/mnt/shared/config"]
CMD ["/etc/kafka/docker/run"]
