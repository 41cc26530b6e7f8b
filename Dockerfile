# The coordinator: python, a Java runtime, and every jar resolved at build time, so that it starts without a network.
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*

# What changes seldom comes first: the dependencies, then the jars, then our own code.
WORKDIR /opt/group-coordinator
COPY pyproject.toml requirements.lock ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*project['dependencies'], *project['optional-dependencies']['spark'], sep='\n')" > requirements.txt \
 && pip install --no-cache-dir --constraint requirements.lock --requirement requirements.txt

ENV GROUP_COORDINATOR_CACHE=/opt/group-coordinator/cache
COPY group_coordinator/__init__.py group_coordinator/
COPY group_coordinator/coordinating/jars/ group_coordinator/coordinating/jars/
COPY group_coordinator/ground/errors.py group_coordinator/ground/
RUN python -m group_coordinator.coordinating.jars

COPY . source/
RUN pip install --no-cache-dir --no-deps ./source && rm -rf source group_coordinator \
 && python -m group_coordinator.proving.embedded_kafka.write_class_archives

# Spark wants a user with a name and a home. /data holds the checkpoint: give it a volume. By /answers a responder hands
# answers to a gateway: give them one in common.
RUN useradd --uid 10001 --create-home coordinator && install --directory --owner coordinator /data \
    && install --directory --owner coordinator --mode 700 /answers
USER coordinator
WORKDIR /data
VOLUME /data

ENV PYTHONUNBUFFERED=1 GROUP_COORDINATOR_HEALTH_FILE=/tmp/group-coordinator.health
# `run` touches the file after every batch and every tick that Kafka has taken.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD test "$(($(date +%s) - $(stat --format=%Y "$GROUP_COORDINATOR_HEALTH_FILE")))" -lt 60

ENTRYPOINT ["group-coordinator"]
CMD ["run"]
