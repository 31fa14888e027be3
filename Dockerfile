# The static binary and nothing else, run by nobody:
#
#   docker build -t seckill .
#   docker run --rm seckill --help
#   docker run --rm --network host seckill --url redis://127.0.0.1:6379 inspect
#
# COMMIT is what `--version` says, because the build has no repository: --build-arg COMMIT=$(git rev-parse HEAD)

FROM rust:1-bookworm AS build
# A list of what it is built from (`--sbom=true`) has the crates of Cargo.lock; the image itself shows none.
ARG BUILDKIT_SBOM_SCAN_STAGE=true
WORKDIR /src
COPY . .
ARG COMMIT
# `cargo package` leaves the commit in such a file, and build.rs reads it.
RUN if [ -n "$COMMIT" ]; then printf '{"git":{"sha1":"%s"}}\n' "$COMMIT" >.cargo_vcs_info.json; fi
RUN binary=$(scripts/build static) && install -D -m 755 "$binary" /root-of-image/seckill
# For rediss:// without --cacert.
RUN install -D -m 644 /etc/ssl/certs/ca-certificates.crt /root-of-image/etc/ssl/certs/ca-certificates.crt

FROM scratch
COPY --from=build /root-of-image /
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
ENTRYPOINT ["/seckill"]
CMD ["--help"]
