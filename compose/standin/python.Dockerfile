# Stands in for python:3.11-slim-bookworm.
ARG BASE=standin/base:bookworm
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* && ln -s python3 /usr/bin/python
CMD ["python3"]
