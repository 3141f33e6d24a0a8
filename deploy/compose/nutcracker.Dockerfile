FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends nutcracker \
    && rm -rf /var/lib/apt/lists/*
USER nobody
# Errors go to standard error, the statistics stay inside.
CMD ["nutcracker", "-c", "/etc/nutcracker/nutcracker.yml", "-o", "/dev/stderr", "-p", "/tmp/nutcracker.pid", "-a", "127.0.0.1"]
