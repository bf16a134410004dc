# Stands in for python:3.13-slim-trixie.
ARG BASE=standin/base:trixie
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* && ln -s python3 /usr/bin/python
CMD ["python3"]
