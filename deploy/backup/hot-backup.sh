#!/bin/sh
# Copies the embedded engine's cluster while it serves: hot-backup.sh DATA_DIR NEW_FOLDER [CONNECTION]
#
# Uses PostgreSQL's low-level backup protocol: between pg_backup_start and pg_backup_stop the files may change during the
# copy, and the WAL written meanwhile, which is copied too, makes them consistent at the first start. Needs psql of any
# version, tar, and the rights to read DATA_DIR. The master key is not copied: keep it apart. NEW_FOLDER appears complete
# or not at all; docs/deploy/backups.md says how to start from it.
set -eu

# psql calls this script again for the two steps that must run during its session.
case ${HEADGATE_BACKUP_STEP:-} in
files)
  # Leaves out what PostgreSQL recreates, what is valid only now, and the WAL, which is copied last.
  tar -C "$from/pg" -cf - --warning=no-file-changed --warning=no-file-removed --warning=no-file-ignored \
    --exclude='./run/*' --exclude='./pg_wal/*' --exclude='./pg_replslot/*' --exclude='./pg_dynshmem/*' \
    --exclude='./pg_notify/*' --exclude='./pg_serial/*' --exclude='./pg_snapshots/*' --exclude='./pg_stat_tmp/*' \
    --exclude='./pg_subtrans/*' --exclude='./postmaster.pid' --exclude='./postmaster.opts' \
    --exclude='pgsql_tmp*' --exclude='pg_internal.init*' . >"$part/pg.tar" || [ $? -eq 1 ]
  mkdir -m 700 "$part/pg"
  tar -C "$part/pg" -xpf "$part/pg.tar"
  rm "$part/pg.tar"
  touch "$part/files"
  exit
  ;;
log)
  first=$(sed -n 's/^START WAL LOCATION: .* (file \([0-9A-F]*\))$/\1/p' "$part/label")
  [ -n "$first" ]
  for segment in "$from"/pg/pg_wal/????????????????????????; do
    # From the first needed segment on; an older one may be recycled while it is read.
    if [ "$(printf '%s\n' "$first" "${segment##*/}" | LC_ALL=C sort | head -n 1)" = "$first" ]; then
      cp -p "$segment" "$part/pg/pg_wal/"
    fi
  done
  chown --reference="$part/pg/PG_VERSION" "$part/label"
  chmod 600 "$part/label"
  mv "$part/label" "$part/pg/backup_label"
  touch "$part/log"
  exit
  ;;
esac

from=$1
to=$2
part=$to.part
self=$(readlink -f "$0")
export from part self
[ ! -e "$to" ] || { echo "$to is there already" >&2; exit 1; }
mkdir -m 700 "$part"
trap 'rm -rf "$part"' EXIT
cp -p "$from/headgate.json" "$part/"

if [ -n "$(ls -A "$from/pg/pg_tblspc")" ]; then
  echo 'there are tablespaces outside the cluster, which this does not copy' >&2
  exit 1
fi

# The slot keeps the WAL until it is copied, and is dropped with the session.
psql -X -q -At -v ON_ERROR_STOP=1 "${3:-host=localhost port=4567 user=root dbname=dev}" <<'SQL'
SELECT slot_name FROM pg_create_physical_replication_slot('headgate_backup_' || pg_backend_pid(), true, true) \gset
SELECT pg_backup_start('headgate', true) AS begin \gset
\! HEADGATE_BACKUP_STEP=files sh "$self"
SELECT labelfile FROM pg_backup_stop(false) \gset
\getenv part part
\set label :part '/label'
\o :label
\qecho -n :labelfile
\o
\! HEADGATE_BACKUP_STEP=log sh "$self"
SQL
[ -e "$part/files" ] && [ -e "$part/log" ] || { echo 'the copy is not complete' >&2; exit 1; }
rm "$part/files" "$part/log"
sync
mv "$part" "$to"
trap - EXIT
