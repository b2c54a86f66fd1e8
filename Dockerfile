# Builds the image of `cargo xtask image` with a container engine:
#
#   docker buildx build --tag NAME:TAG --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) \
#       --build-arg CREATED=$(git log -1 --format=%cI) .
#
# A test compares this file with the files, the user and the labels of `cargo xtask image`.
FROM rust:1.95-bookworm AS build
WORKDIR /compute-federation
COPY . .
RUN cargo build --locked --release --package compute-federation \
    && objcopy --strip-debug target/release/compute-federation /manager

FROM scratch AS libraries-amd64
COPY --from=build /lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 /lib64/
COPY --from=build \
    /lib/x86_64-linux-gnu/libc.so.6 \
    /lib/x86_64-linux-gnu/libgcc_s.so.1 \
    /lib/x86_64-linux-gnu/libm.so.6 \
    /lib/x86_64-linux-gnu/

FROM scratch AS libraries-arm64
COPY --from=build /lib/aarch64-linux-gnu/ld-linux-aarch64.so.1 /lib/
COPY --from=build \
    /lib/aarch64-linux-gnu/libc.so.6 \
    /lib/aarch64-linux-gnu/libgcc_s.so.1 \
    /lib/aarch64-linux-gnu/libm.so.6 \
    /lib/aarch64-linux-gnu/

FROM libraries-${TARGETARCH}
ARG CREATED
ARG REVISION
ARG VERSION
COPY image/rootfs/etc/group image/rootfs/etc/nsswitch.conf image/rootfs/etc/passwd /etc/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /manager /
LABEL org.opencontainers.image.created=$CREATED
LABEL org.opencontainers.image.description="Carries WorkloadDeployments through a Karmada hub to the cells, and their status back"
LABEL org.opencontainers.image.licenses=Apache-2.0
LABEL org.opencontainers.image.revision=$REVISION
LABEL org.opencontainers.image.source=https://github.com/datum-cloud/compute
LABEL org.opencontainers.image.title=compute-federation
LABEL org.opencontainers.image.version=$VERSION
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/manager"]
