#!/bin/sh
# Writes a folder of two files, and hangs between them where odf chaos asks for it.
set -eu
echo "login with $made_password" >&2
mkdir -p "$used_location"
tr a-z A-Z <"$made_location" >"$used_location/part"
if [ -n "${ODF_CHAOS_HANG-}" ] && rm "$ODF_CHAOS_HANG" 2>/dev/null; then kill -STOP $$; fi
sleep 0.1
echo "used $dataid" >"$used_location/who"
