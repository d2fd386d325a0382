#!/bin/sh
set -eu
mkdir -p "$(dirname "$years_location")"
echo "year $dataid of: $months_dataid"
cat $months_location | awk -F, '{ sum[$1] += $2 } END { for (name in sum) print name "," sum[name] }' | sort >"$years_location"
