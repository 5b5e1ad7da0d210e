# memory-proxy: one image, non-root, everything inside; data in /data (mount a volume that outlives the container).
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock requirements-nodeps.lock ./
RUN python -m venv --without-pip /opt/venv \
 && pip --python /opt/venv install --no-cache-dir --require-hashes -r requirements.lock \
 && pip --python /opt/venv install --no-cache-dir --require-hashes --no-deps -r requirements-nodeps.lock
COPY pyproject.toml README.md ./
COPY proxy proxy
COPY memory memory
COPY policies policies
COPY bench bench
RUN pip --python /opt/venv install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home memory && install -d -o memory -g memory -m 0700 /data
COPY --from=build /opt/venv /opt/venv
USER memory
# Inside a container the network is the container's own, so listening on all of it opens nothing: publishing the port
# does. Publish it on 127.0.0.1, or where everybody who reaches it is trusted.
ENV PATH=/opt/venv/bin:$PATH XDG_CACHE_HOME=/data/cache MEMORY_PROXY_DATA__DIR=/data MEMORY_PROXY_LISTEN__OPEN_ON_NETWORK=true
VOLUME /data
EXPOSE 8080
# On the port that the service was given. Not by urllib, which would ask the proxy that HTTP_PROXY names.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
  CMD ["python", "-c", "import http.client as h, json, pathlib; f = pathlib.Path('/data/run/settings.json'); p = json.loads(f.read_text())['listen']['port'] if f.exists() else 8080; c = h.HTTPConnection('127.0.0.1', p, timeout=2); c.request('GET', '/memory/health'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["memory-proxy", "serve", "--data-dir", "/data", "--host", "0.0.0.0"]
CMD ["--upstream", "http://host.docker.internal:8000"]
