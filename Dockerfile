# pullqueue as a container:
#
#   docker build -t pullqueue .
#   docker run --rm -p 127.0.0.1:8124:8124 -v .:/etc/pullqueue:ro pullqueue
#
# It has Cloud Tasks; a gRPC port is served with an argument:
#
#   docker run --rm -p 127.0.0.1:8124:8124 -p 127.0.0.1:8126:8126 pullqueue serve --host 0.0.0.0 --grpc-port 8126
#
# EXTRAS names what is optional, such as a store: --build-arg 'EXTRAS=[cloudtasks,auth,postgres]'

FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ARG EXTRAS="[cloudtasks,auth]"
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    wheel="$(ls /wheels/pullqueue-*.whl)" \
    && pip install --no-cache-dir "${wheel}${EXTRAS}" \
    && useradd --system --no-create-home --uid 10124 pullqueue \
    && install -d -o pullqueue /var/lib/pullqueue
USER 10124
WORKDIR /etc/pullqueue
ENV PYTHONUNBUFFERED=1
EXPOSE 8124 8126
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["pullqueue", "wait", "--url", "http://127.0.0.1:8124", "--timeout", "2"]
ENTRYPOINT ["pullqueue"]
CMD ["serve", "--host", "0.0.0.0", "--watch", "--log-format", "json"]
