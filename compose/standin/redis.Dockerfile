# Stands in for redis:7.
ARG BASE=standin/base:trixie
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
USER redis
WORKDIR /tmp
EXPOSE 6379
CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--appendonly", "no"]
