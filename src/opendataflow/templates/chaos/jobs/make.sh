#!/bin/sh
# Writes half of its output, hangs where odf chaos asks for it, takes its time, and writes the rest.
set -eu
echo "login with $made_password" >&2
exec >"$made_location"
echo "made of"
if [ -n "${ODF_CHAOS_HANG-}" ] && rm "$ODF_CHAOS_HANG" 2>/dev/null; then kill -STOP $$; fi
sleep 0.3
cat "$raw_location"
